/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The page that a scheduler in the kernel and its loader share: the loader gives orders, the
 * scheduler tells how it ended. */
#pragma once

#include <linux/types.h>

#define REPORT_SECTION ".data.report"

struct report {
	__u32 lose_victims; /* written by the loader: from now on, lose tasks named "victim" */
	__s32 kind;         /* written last by the scheduler; 0 while it is attached */
	__s64 exit_code;
	char reason[128];
	char message[1024];
};

/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* One first-in-first-out scheduler on the kernel's own global queue, and its variants:
 *
 *   OPS_NAME       the name the kernel shows in root/ops
 *   OPS_FLAGS      SCX_OPS_* bits
 *   SECTION        ".struct_ops.link", or ".struct_ops" for one that no link holds
 *   TIMEOUT_MS     how long a task may wait before the kernel's watchdog ejects the scheduler
 *   LOSES_VICTIMS  on the loader's command, never run tasks named "victim" again
 *   INIT_ERROR     the errno with which init fails
 *
 * The types below name only the members used here: libbpf finds them by name in the running kernel's
 * BTF, so one object fits every kernel that has them.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "report.h"

#define GLOBAL_QUEUE ((1ULL << 63) | 1)
#define SLICE_NS (20ULL * 1000 * 1000)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct {
	char comm[16];
};

/* an enum of any content will do, but it must be one: an int does not match the kernel's member */
enum scx_exit_kind { EXIT_KIND_NONE };

struct scx_exit_info {
	enum scx_exit_kind kind;
	__s64 exit_code;
	const char *reason;
	char *msg;
};

struct sched_ext_ops {
	__s32 (*select_cpu)(struct task_struct *task, __s32 previous_cpu, __u64 wake_flags);
	void (*enqueue)(struct task_struct *task, __u64 enqueue_flags);
	__s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	__u64 flags;
	__u32 timeout_ms;
	char name[128];
};

#pragma clang attribute pop

void scx_bpf_dsq_insert(struct task_struct *task, __u64 queue, __u64 slice_ns, __u64 enqueue_flags) __ksym;

/* the kernel offers these functions to programs under the GPL only */
char terms[] SEC("license") = "GPL";

struct report report SEC(REPORT_SECTION);

#ifdef LOSES_VICTIMS
static bool is_to_be_lost(struct task_struct *task)
{
	char name[sizeof(task->comm)] = {};

	if (!report.lose_victims)
		return false;
	bpf_core_read_str(name, sizeof(name), &task->comm);
	return bpf_strncmp(name, sizeof(name), "victim") == 0;
}

/* The kernel's own choice would put a waking task straight onto an idle CPU, past enqueue. */
SEC("struct_ops/stay_on_cpu")
__s32 BPF_PROG(stay_on_cpu, struct task_struct *task, __s32 previous_cpu, __u64 wake_flags)
{
	return previous_cpu;
}
#endif

SEC("struct_ops/append")
void BPF_PROG(append, struct task_struct *task, __u64 enqueue_flags)
{
#ifdef LOSES_VICTIMS
	if (is_to_be_lost(task))
		return;
#endif
	scx_bpf_dsq_insert(task, GLOBAL_QUEUE, SLICE_NS, enqueue_flags);
}

#ifdef INIT_ERROR
SEC("struct_ops.s/fail")
__s32 BPF_PROG(fail)
{
	return -INIT_ERROR;
}
#endif

SEC("struct_ops/tell")
void BPF_PROG(tell, struct scx_exit_info *info)
{
	report.exit_code = BPF_CORE_READ(info, exit_code);
	bpf_probe_read_kernel_str(report.reason, sizeof(report.reason), BPF_CORE_READ(info, reason));
	bpf_probe_read_kernel_str(report.message, sizeof(report.message), BPF_CORE_READ(info, msg));
	report.kind = BPF_CORE_READ(info, kind);
}

SEC(SECTION)
struct sched_ext_ops scheduler = {
#ifdef LOSES_VICTIMS
	.select_cpu = (void *)stay_on_cpu,
#endif
#ifdef INIT_ERROR
	.init = (void *)fail,
#endif
	.enqueue = (void *)append,
	.exit = (void *)tell,
	.flags = OPS_FLAGS,
	.timeout_ms = TIMEOUT_MS,
	.name = OPS_NAME,
};

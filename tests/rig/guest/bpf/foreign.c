/* SPDX-License-Identifier: Apache-2.0 */
/* A program for another machine (arm64): it would wait forever there, and cannot start here. */
void _start(void)
{
	for (;;)
		__asm__ volatile("wfi");
}

/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* A TCP congestion control that nobody uses. Its loader holds a struct_ops link as a scheduler's does,
 * so it catches whoever takes each such link for a sched_ext one. */
#include <linux/bpf.h>
#include <linux/types.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock;

struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *socket);
	void (*cong_avoid)(struct sock *socket, __u32 ack, __u32 acked);
	__u32 (*undo_cwnd)(struct sock *socket);
	char name[16];
};

#pragma clang attribute pop

char terms[] SEC("license") = "GPL";

SEC("struct_ops/threshold")
__u32 BPF_PROG(threshold, struct sock *socket)
{
	return 2;
}

SEC("struct_ops/avoid")
void BPF_PROG(avoid, struct sock *socket, __u32 ack, __u32 acked)
{
}

SEC("struct_ops/undo")
__u32 BPF_PROG(undo, struct sock *socket)
{
	return 2;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops congestion = {
	.ssthresh = (void *)threshold,
	.cong_avoid = (void *)avoid,
	.undo_cwnd = (void *)undo,
	.name = "rig_tcp",
};

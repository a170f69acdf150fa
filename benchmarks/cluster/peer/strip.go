package main

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stripNode keeps labels and taints: images, conditions and the rest are most of a node's 15 KB.
func stripNode(in any) (any, error) {
	node, ok := in.(*corev1.Node)
	if !ok {
		return in, nil
	}
	return &corev1.Node{
		ObjectMeta: bare(node.ObjectMeta),
		Spec:       corev1.NodeSpec{Taints: node.Spec.Taints, Unschedulable: node.Spec.Unschedulable},
	}, nil
}

// stripPod keeps where it runs, with what powers, and how it is going.
func stripPod(in any) (any, error) {
	pod, ok := in.(*corev1.Pod)
	if !ok {
		return in, nil
	}
	out := &corev1.Pod{ObjectMeta: bare(pod.ObjectMeta)}
	out.Spec.NodeName = pod.Spec.NodeName
	for _, container := range pod.Spec.Containers {
		kept := corev1.Container{Name: container.Name, SecurityContext: container.SecurityContext}
		out.Spec.Containers = append(out.Spec.Containers, kept)
	}
	out.Status = corev1.PodStatus{
		Phase:             pod.Status.Phase,
		Reason:            pod.Status.Reason,
		Message:           pod.Status.Message,
		Conditions:        pod.Status.Conditions,
		ContainerStatuses: pod.Status.ContainerStatuses,
	}
	return out, nil
}

// bare is a new value: to clear fields of the old one would keep all of it in memory.
func bare(meta metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:              meta.Name,
		Namespace:         meta.Namespace,
		UID:               meta.UID,
		ResourceVersion:   meta.ResourceVersion,
		Generation:        meta.Generation,
		CreationTimestamp: meta.CreationTimestamp,
		DeletionTimestamp: meta.DeletionTimestamp,
		Labels:            meta.Labels,
		OwnerReferences:   meta.OwnerReferences,
	}
}

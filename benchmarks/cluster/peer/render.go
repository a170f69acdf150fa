package main

import (
	"crypto/sha256"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	managedBy   = "managed-by"
	managerName = "sked-controller"
	claimKey    = "sked.schedkit.io/claim"
)

// render is the DaemonSet that sked renders for the same SchedExt; the benchmark compares them.
func render(schedExt *SchedExt) *appsv1.DaemonSet {
	yes, no := true, false
	pod := corev1.PodSpec{
		NodeSelector:                 schedExt.Spec.NodeSelector,
		Affinity:                     affinity(schedExt),
		AutomountServiceAccountToken: &no,
		Containers: []corev1.Container{{
			Name:                     "scx",
			Image:                    schedExt.Spec.Sched,
			SecurityContext:          &corev1.SecurityContext{Privileged: &yes},
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		}},
	}
	owner := metav1.NewControllerRef(schedExt, groupVersion.WithKind("SchedExt"))
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{
			Name:            schedExt.Name,
			Namespace:       schedExt.Namespace,
			Labels:          map[string]string{managedBy: managerName},
			OwnerReferences: []metav1.OwnerReference{*owner},
		},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": schedExt.Name}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels: map[string]string{"name": schedExt.Name, managedBy: managerName},
				},
				Spec: pod,
			},
		},
	}
}

func affinity(schedExt *SchedExt) *corev1.Affinity {
	unclaimed := corev1.NodeSelectorRequirement{Key: claimKey, Operator: corev1.NodeSelectorOpDoesNotExist}
	mine := corev1.NodeSelectorRequirement{
		Key: claimKey, Operator: corev1.NodeSelectorOpIn, Values: []string{claim(schedExt)},
	}
	terms := []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{unclaimed}},
		{MatchExpressions: []corev1.NodeSelectorRequirement{mine}},
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
}

func claim(schedExt *SchedExt) string {
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte(schedExt.Namespace+"/"+schedExt.Name)))[:12]
	readable := strings.TrimRight(schedExt.Name[:min(len(schedExt.Name), 50)], "-.")
	return readable + "-" + digest
}

package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "sked.schedkit.io", Version: "v1"}

// SchedExt has the fields that the benchmark's objects use.
type SchedExt struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              SchedExtSpec   `json:"spec"`
	Status            SchedExtStatus `json:"status,omitempty"`
}

type SchedExtSpec struct {
	Sched        string            `json:"sched"`
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
}

type SchedExtStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Image              string             `json:"image,omitempty"`
	Nodes              *NodeCounts        `json:"nodes,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

type NodeCounts struct {
	Desired   int `json:"desired,omitempty"`
	Attached  int `json:"attached,omitempty"`
	Updated   int `json:"updated,omitempty"`
	Starting  int `json:"starting,omitempty"`
	Unknown   int `json:"unknown,omitempty"`
	PodsReady int `json:"podsReady,omitempty"`
}

type SchedExtList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SchedExt `json:"items"`
}

func registerSchedExt(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(groupVersion, &SchedExt{}, &SchedExtList{}, &SchedExtNode{}, &SchedExtNodeList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
}

func (in *SchedExt) DeepCopyObject() runtime.Object { return in.deepCopy() }

func (in *SchedExt) deepCopy() *SchedExt {
	out := *in
	out.ObjectMeta = *in.ObjectMeta.DeepCopy()
	out.Spec.NodeSelector = copyLabels(in.Spec.NodeSelector)
	out.Status = in.Status.deepCopy()
	return &out
}

func (in SchedExtStatus) deepCopy() SchedExtStatus {
	if in.Nodes != nil {
		counts := *in.Nodes
		in.Nodes = &counts
	}
	in.Conditions = append([]metav1.Condition(nil), in.Conditions...)
	return in
}

func (in *SchedExtList) DeepCopyObject() runtime.Object {
	out := *in
	out.Items = make([]SchedExt, 0, len(in.Items))
	for i := range in.Items {
		out.Items = append(out.Items, *in.Items[i].deepCopy())
	}
	return &out
}

func copyLabels(in map[string]string) map[string]string {
	if in == nil {
		return nil
	}
	out := make(map[string]string, len(in))
	for key, value := range in {
		out[key] = value
	}
	return out
}

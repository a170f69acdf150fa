package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// SchedExtNode has the fields that sked's manager decodes.
type SchedExtNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Status            ReportStatus `json:"status,omitempty"`
}

type ReportStatus struct {
	NodeUID  string        `json:"nodeUID,omitempty"`
	Kernel   ReportKernel  `json:"kernel,omitempty"`
	State    string        `json:"state,omitempty"`
	Owner    ReportOwner   `json:"owner,omitempty"`
	Eligible string        `json:"eligible,omitempty"`
	Findings []NodeFinding `json:"findings,omitempty"`
	Exits    []NodeExit    `json:"exits,omitempty"`
}

type ReportKernel struct {
	BootID string `json:"bootID,omitempty"`
}

type ReportOwner struct {
	Kind        string `json:"kind,omitempty"`
	PodUID      string `json:"podUID,omitempty"`
	ContainerID string `json:"containerID,omitempty"`
	Unit        string `json:"unit,omitempty"`
	Program     string `json:"program,omitempty"`
	Reason      string `json:"reason,omitempty"`
}

type NodeFinding struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Detail string `json:"detail,omitempty"`
}

type NodeExit struct {
	Ops       string       `json:"ops,omitempty"`
	Kind      int          `json:"kind,omitempty"`
	Reason    string       `json:"reason,omitempty"`
	Message   string       `json:"message,omitempty"`
	Task      string       `json:"task,omitempty"`
	Count     int          `json:"count,omitempty"`
	FirstTime *metav1.Time `json:"firstTime,omitempty"`
	Time      *metav1.Time `json:"time,omitempty"`
	LogTime   int64        `json:"logTime,omitempty"`
}

type SchedExtNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SchedExtNode `json:"items"`
}

// proves says whether the kernel runs the scheduler of the pod with that uid.
func (in *SchedExtNode) proves(uid string) bool {
	return in.Status.State == "enabled" && in.Status.Owner.PodUID == uid
}

func (in *SchedExtNode) DeepCopyObject() runtime.Object { return in.deepCopy() }

func (in *SchedExtNode) deepCopy() *SchedExtNode {
	out := *in
	out.ObjectMeta = *in.ObjectMeta.DeepCopy()
	out.Status.Findings = append([]NodeFinding(nil), in.Status.Findings...)
	out.Status.Exits = append([]NodeExit(nil), in.Status.Exits...)
	return &out
}

func (in *SchedExtNodeList) DeepCopyObject() runtime.Object {
	out := *in
	out.Items = make([]SchedExtNode, 0, len(in.Items))
	for i := range in.Items {
		out.Items = append(out.Items, *in.Items[i].deepCopy())
	}
	return &out
}

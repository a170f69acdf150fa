package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	settling   = 30 * time.Second
	podsByName = "schedext"
	podsByNode = "node"
)

type reconciler struct{ client.Client }

func (r *reconciler) register(ctx context.Context, manager ctrl.Manager, workers int) error {
	// or each reconcile would walk through the pods of all SchedExts
	index := func(pod client.Object) []string { return []string{pod.GetLabels()["name"]} }
	if err := manager.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, podsByName, index); err != nil {
		return err
	}
	onNode := func(pod client.Object) []string { return []string{pod.(*corev1.Pod).Spec.NodeName} }
	if err := manager.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, podsByNode, onNode); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(manager).
		For(&SchedExt{}).
		Owns(&appsv1.DaemonSet{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(schedExtOf)).
		Watches(&SchedExtNode{}, handler.EnqueueRequestsFromMapFunc(r.schedExtsOn)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

func schedExtOf(_ context.Context, pod client.Object) []reconcile.Request {
	name := types.NamespacedName{Namespace: pod.GetNamespace(), Name: pod.GetLabels()["name"]}
	return []reconcile.Request{{NamespacedName: name}}
}

// schedExtsOn are those with a pod on the node that a report is about.
func (r *reconciler) schedExtsOn(ctx context.Context, report client.Object) (found []reconcile.Request) {
	var pods corev1.PodList
	if err := r.List(ctx, &pods, client.MatchingFields{podsByNode: report.GetName()}); err != nil {
		return nil
	}
	for i := range pods.Items {
		if pods.Items[i].Namespace != agentNamespace {
			found = append(found, schedExtOf(ctx, &pods.Items[i])...)
		}
	}
	return found
}

// proof is what the kernels of the pods' nodes are reported to run.
type proof struct {
	attached int
	known    bool // somebody reports
}

func (r *reconciler) prove(ctx context.Context, pods []corev1.Pod) (found proof) {
	for i := range pods {
		var report SchedExtNode
		if err := r.Get(ctx, client.ObjectKey{Name: pods[i].Spec.NodeName}, &report); err != nil {
			continue
		}
		found.known = true
		if report.proves(string(pods[i].UID)) {
			found.attached++
		}
	}
	return found
}

// Reconcile creates the DaemonSet if there is none, and writes the status if it changed.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var schedExt SchedExt
	if err := r.Get(ctx, req.NamespacedName, &schedExt); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	daemonSet, err := r.ensureDaemonSet(ctx, &schedExt)
	if err != nil {
		return ctrl.Result{}, err
	}
	var pods corev1.PodList
	mine := client.MatchingFields{podsByName: req.Name}
	if err := r.List(ctx, &pods, client.InNamespace(req.Namespace), mine); err != nil {
		return ctrl.Result{}, err
	}
	proved := r.prove(ctx, pods.Items)
	status, again := computeStatus(&schedExt, daemonSet, pods.Items, proved, time.Now())
	if equality.Semantic.DeepEqual(status, schedExt.Status) {
		return ctrl.Result{RequeueAfter: again}, nil
	}
	schedExt.Status = status
	err = r.Status().Update(ctx, &schedExt)
	if errors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Millisecond}, nil // the cache is behind our own last write
	}
	return ctrl.Result{RequeueAfter: again}, err
}

func (r *reconciler) ensureDaemonSet(ctx context.Context, schedExt *SchedExt) (*appsv1.DaemonSet, error) {
	var found appsv1.DaemonSet
	err := r.Get(ctx, client.ObjectKeyFromObject(schedExt), &found)
	if !errors.IsNotFound(err) {
		return &found, err
	}
	wanted := render(schedExt)
	if err := r.Create(ctx, wanted); err != nil && !errors.IsAlreadyExists(err) {
		return nil, err
	}
	return wanted, nil
}

// computeStatus says the same as sked's does where all is well; again is when it changes by waiting alone.
func computeStatus(
	schedExt *SchedExt, daemonSet *appsv1.DaemonSet, pods []corev1.Pod, proved proof, now time.Time,
) (SchedExtStatus, time.Duration) {
	seen := daemonSet.Generation > 0 && daemonSet.Status.ObservedGeneration >= daemonSet.Generation
	counts, late := countNodes(daemonSet, pods, now)
	counts.Attached, counts.Updated = proved.attached, proved.attached
	counts.Unknown -= proved.attached
	again := max(0, late.youngest.Add(settling).Sub(now))
	status := SchedExtStatus{
		ObservedGeneration: schedExt.Generation,
		Nodes:              &counts,
		Conditions:         append([]metav1.Condition(nil), schedExt.Status.Conditions...),
	}
	if len(pods) > 0 {
		status.Image = runningImage(pods[0])
	}
	for _, each := range conditions(seen, counts, proved, late) {
		each.ObservedGeneration = schedExt.Generation
		meta.SetStatusCondition(&status.Conditions, each)
	}
	return status, again
}

// latecomers are the pods that do not run, or not for long enough.
type latecomers struct {
	youngest time.Time
	settling int
	absent   int // pods that are still to be created
	starting bool
	node     string // the first by name on which a pod is being started
	doing    string
}

func countNodes(daemonSet *appsv1.DaemonSet, pods []corev1.Pod, now time.Time) (counts NodeCounts, late latecomers) {
	counts.Desired = max(int(daemonSet.Status.DesiredNumberScheduled), len(pods))
	late.absent = counts.Desired - len(pods)
	for i := range pods {
		began := runningSince(&pods[i])
		if began.IsZero() {
			late.start(&pods[i])
			continue
		}
		counts.Unknown, counts.PodsReady = counts.Unknown+1, counts.PodsReady+1
		if began.After(late.youngest) {
			late.youngest = began
		}
		if began.Add(settling).After(now) {
			late.settling++
		}
	}
	counts.Starting = counts.Desired - counts.Unknown
	return counts, late
}

func (late *latecomers) start(pod *corev1.Pod) {
	if late.starting && late.node <= pod.Spec.NodeName {
		return
	}
	late.starting, late.node, late.doing = true, pod.Spec.NodeName, ""
	for _, container := range pod.Status.ContainerStatuses {
		if container.State.Waiting != nil && container.State.Waiting.Reason != "" {
			late.doing = " (" + container.State.Waiting.Reason + ")"
		}
	}
}

// runningSince is zero for a pod that does not run.
func runningSince(pod *corev1.Pod) (began time.Time) {
	for _, container := range pod.Status.ContainerStatuses {
		if container.State.Running != nil {
			began = container.State.Running.StartedAt.Time
		}
	}
	return began
}

func runningImage(pod corev1.Pod) string {
	for _, container := range pod.Status.ContainerStatuses {
		if container.State.Running != nil {
			_, image, found := strings.Cut(container.ImageID, "://")
			if !found {
				image = container.ImageID
			}
			return image
		}
	}
	return ""
}

func conditions(seen bool, counts NodeCounts, proved proof, late latecomers) []metav1.Condition {
	ready := condition("Ready", metav1.ConditionUnknown, "NoKernelReports",
		"no node reports what its kernel runs")
	if proved.known { // the benchmark has no fleet of which only some kernels run it
		words := fmt.Sprintf("the kernels of %s run the scheduler", nodesOf(proved.attached))
		ready = condition("Ready", metav1.ConditionTrue, "Attached", words)
	}
	deployed, progressing := deployment(seen, counts, late)
	if deployed.Reason == "NoNodes" {
		ready = condition("Ready", metav1.ConditionFalse, deployed.Reason, deployed.Message)
	}
	return []metav1.Condition{
		condition("Accepted", metav1.ConditionTrue, "Accepted", "nothing prevents the deployment of this SchedExt"),
		condition("Verified", metav1.ConditionUnknown, "VerificationOff", "signatures are not verified"),
		deployed,
		progressing,
		ready,
	}
}

func deployment(seen bool, counts NodeCounts, late latecomers) (deployed, progressing metav1.Condition) {
	done := condition("Progressing", metav1.ConditionFalse, "UpToDate", "every pod is made from the current spec")
	no := func(reason, message string) metav1.Condition {
		return condition("Deployed", metav1.ConditionFalse, reason, message)
	}
	nodes := nodesOf(counts.Desired)
	switch {
	case !seen:
		words := "the DaemonSet controller has not seen the last change yet"
		return no("RollingOut", words), condition("Progressing", metav1.ConditionTrue, "RollingOut", words)
	case counts.Desired == 0:
		return no("NoNodes", "no node matches nodeSelector, affinity and tolerations"), done
	case counts.Starting > 0:
		words := fmt.Sprintf("pods are being started on %d of %s", counts.Starting, nodes)
		return no("PodStarting", late.words(counts.Starting, nodes)),
			condition("Progressing", metav1.ConditionTrue, "Starting", words)
	case late.settling > 0:
		words := fmt.Sprintf("on %d of %s, pods still have to run for 30 s without a restart", late.settling, nodes)
		return no("Settling", words), done
	}
	return condition("Deployed", metav1.ConditionTrue, "PodsSettled", fmt.Sprintf("pods run on %s", nodes)), done
}

// words are about the first node by name; a pod that is still to be created has none.
func (late *latecomers) words(starting int, nodes string) string {
	switch {
	case late.absent > 0:
		return fmt.Sprintf("%d of %s: the pod is about to be created", starting, nodes)
	case late.node == "":
		return fmt.Sprintf("%d of %s: the pod is being started%s", starting, nodes, late.doing)
	}
	return fmt.Sprintf("%d of %s, such as %s: the pod is being started%s", starting, nodes, late.node, late.doing)
}

func nodesOf(count int) string {
	if count == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", count)
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

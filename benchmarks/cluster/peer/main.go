// The operator's job done once more, in Go on controller-runtime, so that the benchmark has somebody to
// compare with. It watches and caches the same kinds as sked, makes the same writes, and answers what its
// cache knows about a node.
package main

import (
	"flag"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

type options struct {
	kubeconfig string
	qps        float64
	burst      int
	workers    int
	address    string
}

func main() {
	opts := parse(os.Args[1:])
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil)))
	if err := run(opts); err != nil {
		slog.Error("the peer ended", "reason", err)
		os.Exit(1)
	}
}

// parse has a flag set of its own: controller-runtime puts a -kubeconfig into the common one.
func parse(arguments []string) (opts options) {
	flags := flag.NewFlagSet("peer", flag.ExitOnError)
	flags.StringVar(&opts.kubeconfig, "kubeconfig", "", "which API server, as whom")
	flags.Float64Var(&opts.qps, "qps", -1, "requests per second and kind; negative: no limit")
	flags.IntVar(&opts.burst, "burst", 30, "requests at once before the limit is felt")
	flags.IntVar(&opts.workers, "workers", 1, "reconciles at once")
	flags.StringVar(&opts.address, "query-address", "127.0.0.1:0", "where to ask what the cache holds")
	_ = flags.Parse(arguments) // ends the process itself
	return opts
}

func run(opts options) error {
	manager, err := newManager(opts)
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	if err := (&reconciler{manager.GetClient()}).register(ctx, manager, opts.workers); err != nil {
		return err
	}
	// Nodes are only looked up: without this line their cache would begin to fill at the first question
	if _, err := manager.GetCache().GetInformer(ctx, &corev1.Node{}); err != nil {
		return err
	}
	if err := manager.Add(&queries{address: opts.address, cache: manager.GetCache()}); err != nil {
		return err
	}
	return manager.Start(ctx)
}

func newManager(opts options) (ctrl.Manager, error) {
	config, err := clientcmd.BuildConfigFromFlags("", opts.kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = float32(opts.qps), opts.burst
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	registerSchedExt(scheme)
	return ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cacheOptions(),
	})
}

const agentNamespace = "sked-node"

// podsOf are those of schedulers anywhere, and of agents in their own namespace.
func podsOf(ours labels.Selector) map[string]cache.Config {
	agents := labels.SelectorFromSet(labels.Set{"app.kubernetes.io/component": "node-agent"})
	return map[string]cache.Config{
		agentNamespace:      {LabelSelector: agents},
		cache.AllNamespaces: {LabelSelector: ours},
	}
}

// cacheOptions keep of each kind what sked keeps, and see the objects that sked sees.
func cacheOptions() cache.Options {
	ours := labels.SelectorFromSet(labels.Set{managedBy: managerName})
	return cache.Options{
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Node{}:      {Transform: stripNode},
			&corev1.Pod{}:       {Namespaces: podsOf(ours), Transform: stripPod},
			&SchedExtNode{}:     {Transform: cache.TransformStripManagedFields()},
			&appsv1.DaemonSet{}: {Label: ours, Transform: cache.TransformStripManagedFields()},
			&SchedExt{}:         {Transform: cache.TransformStripManagedFields()},
		},
	}
}

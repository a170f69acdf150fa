package main

import (
	"context"
	"encoding/json"
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// queries answers, over HTTP, what the cache holds: the benchmark's proof that it holds anything.
type queries struct {
	address string
	cache   cache.Cache
}

// Start is called by the manager when its caches have been filled.
func (q *queries) Start(ctx context.Context) error {
	routes := http.NewServeMux()
	routes.HandleFunc("GET /counts", answer(q.counts))
	routes.HandleFunc("GET /nodes/{name}", answer(q.node))
	server := &http.Server{Addr: q.address, Handler: routes}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		return err
	}
	return nil
}

func answer(ask func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		found, err := ask(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(found)
	}
}

func (q *queries) node(r *http.Request) (any, error) {
	var node corev1.Node
	if err := q.cache.Get(r.Context(), client.ObjectKey{Name: r.PathValue("name")}, &node); err != nil {
		return nil, err
	}
	taints := node.Spec.Taints
	if taints == nil {
		taints = []corev1.Taint{}
	}
	return map[string]any{"labels": node.Labels, "taints": taints}, nil
}

func (q *queries) counts(r *http.Request) (any, error) {
	var (
		nodes      corev1.NodeList
		pods       corev1.PodList
		daemonSets appsv1.DaemonSetList
		schedExts  SchedExtList
		reports    SchedExtNodeList
	)
	for _, list := range []client.ObjectList{&nodes, &pods, &daemonSets, &schedExts, &reports} {
		// copies of everything would be a memory peak that no real use of the cache has
		if err := q.cache.List(r.Context(), list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
	}
	agents := 0
	for i := range pods.Items {
		if pods.Items[i].Namespace == agentNamespace {
			agents++
		}
	}
	return map[string]int{
		"nodes":      len(nodes.Items),
		"pods":       len(pods.Items) - agents,
		"agents":     agents,
		"reports":    len(reports.Items),
		"daemonsets": len(daemonSets.Items),
		"schedexts":  len(schedExts.Items),
	}, nil
}

package main

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/ownership"
)

// readFleet reads the nodes of a gr, with their pods and operations.
func readFleet(ctx context.Context, cl *cluster, gr *topsv1.GcuResource) (*display.Fleet, error) {
	f := &display.Fleet{Resource: gr, Now: time.Now()}
	var err error
	if f.Rollout, err = cl.rollout(ctx, gr.Name); err != nil {
		return nil, err
	}
	var upgrades topsv1.NodeUpgradeList
	var nodes corev1.NodeList
	for _, l := range []client.ObjectList{&upgrades, &nodes} {
		if err := cl.all(ctx, "", l); err != nil {
			return nil, err
		}
	}
	if f.DaemonSets, err = cl.daemonSets(ctx, gr); err != nil {
		return nil, err
	}
	f.NodeUpgrades, f.Nodes = upgrades.Items, nodes.Items
	for i := range f.DaemonSets {
		if err := readPods(ctx, cl, &f.DaemonSets[i], f); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// readPods adds the pods and revisions of a DaemonSet.
func readPods(ctx context.Context, cl *cluster, set *appsv1.DaemonSet, f *display.Fleet) error {
	var pods corev1.PodList
	var revisions appsv1.ControllerRevisionList
	for _, l := range []client.ObjectList{&pods, &revisions} {
		if err := ownership.ListSelected(ctx, cl, l, set); err != nil {
			return explain(err, "list", set.Namespace)
		}
	}
	f.Pods = append(f.Pods, pods.Items...)
	f.Revisions = append(f.Revisions, revisions.Items...)
	return nil
}

// labelsOf returns the labels of some nodes of a fleet, by name.
func labelsOf(f *display.Fleet, nodes []display.Node) map[string]map[string]string {
	labels := map[string]map[string]string{}
	for i := range nodes {
		labels[nodes[i].Name] = nil
	}
	for i := range f.Nodes {
		if _, is := labels[f.Nodes[i].Name]; is {
			labels[f.Nodes[i].Name] = f.Nodes[i].Labels
		}
	}
	return labels
}

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/gating"
)

// gatePolicy is the kind of the admission policy of config/gate, gateBinding that of its bindings.
var (
	gatePolicy  = schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicy"}
	gateBinding = gatePolicy.GroupVersion().WithKind("MutatingAdmissionPolicyBinding")
)

// gateInterval is how often a manager checks whether config/gate is installed.
const gateInterval = time.Minute

// gate is the state of the requested gate as this process last saw it.
type gate struct {
	// live reads from the API server.
	live client.Reader
	// namespace is that of the manager, and of the DaemonRollouts of grs.
	namespace string
	// show shows whether it is there.
	show func(available bool)
	// changed receives when the mode has changed.
	changed chan struct{}
	log     logr.Logger
	mode    atomic.Value
	// why it is not available, as it was logged last.
	why string
}

// Mode returns it.
func (g *gate) Mode() gating.Mode {
	mode, _ := g.mode.Load().(gating.Mode)
	return mode
}

// addGate adds the checks of the gate to a manager, and returns the gate that they update.
func addGate(mgr ctrl.Manager, namespace string, show func(available bool)) (*gate, error) {
	g := &gate{live: mgr.GetAPIReader(), namespace: namespace, show: show, changed: make(chan struct{}, 1), log: mgr.GetLogger()}
	if err := g.begin(mgr.GetRESTMapper()); err != nil {
		return nil, err
	}
	if err := mgr.Add(g); err != nil {
		return nil, fmt.Errorf("adding the checks of the gate: %w", err)
	}
	return g, nil
}

// begin checks whether the API server serves the policy; a running manager does not check that again.
func (g *gate) begin(kinds meta.RESTMapper) error {
	switch _, err := kinds.RESTMapping(gatePolicy.GroupKind(), gatePolicy.Version); {
	case meta.IsNoMatchError(err):
		g.becomes(gating.NotServed, "")
	case err != nil:
		return fmt.Errorf("looking for the kind of the gate's policy: %w", err)
	default:
		g.mode.Store(gating.On)
	}
	return nil
}

// Start checks periodically until ctx is done.
func (g *gate) Start(ctx context.Context) error {
	if g.Mode() != gating.NotServed {
		wait.UntilWithContext(ctx, g.look, gateInterval)
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: each manager shows what it knows.
func (g *gate) NeedLeaderElection() bool { return false }

// look checks whether config/gate is installed, for the namespace of the manager, which includes the right to read it.
func (g *gate) look(ctx context.Context) {
	const name = "gcu-operator-gate"
	for _, object := range []struct {
		kind schema.GroupVersionKind
		name string
		// namespace is where the binding finds DaemonRollouts, empty for that of the pod.
		namespace string
	}{{gatePolicy, name, ""}, {gateBinding, name, ""}, {gateBinding, name + "-gcuresources", g.namespace}} {
		there := &unstructured.Unstructured{}
		there.SetGroupVersionKind(object.kind)
		err := g.live.Get(ctx, client.ObjectKey{Name: object.name}, there)
		of, _, _ := unstructured.NestedString(there.Object, "spec", "paramRef", "namespace")
		switch {
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
			g.becomes(gating.NotInstalled, "")
			return
		case err != nil:
			g.log.Error(err, "Could not check whether config/gate is installed", "kind", object.kind.Kind, "name", object.name)
			return
		case of != object.namespace:
			g.becomes(gating.NotInstalled, fmt.Sprintf("%s %s is for namespace %q (spec.paramRef.namespace), want %q, so ", object.kind.Kind, object.name, of, object.namespace))
			return
		}
	}
	g.becomes(gating.On, "")
}

// becomes sets the mode. It announces and logs a change; detail is what the log says before the reason.
func (g *gate) becomes(mode gating.Mode, detail string) {
	g.show(mode == gating.On)
	why := detail + mode.Why()
	if before, _ := g.mode.Swap(mode).(gating.Mode); before == mode && why == g.why {
		return
	}
	g.why = why
	select {
	case g.changed <- struct{}{}:
	default: // an earlier change is not taken yet
	}
	switch {
	case why == "":
		g.log.Info("The gate is available")
	case detail != "":
		g.log.Error(errors.New(why), "The gate is not available. Set spec.paramRef.namespace of the binding as wanted, or leave --gate out")
	default:
		g.log.Error(errors.New(why), "The gate is not available. Install config/gate, for which Kubernetes may have to be upgraded and the manager restarted, or leave --gate out")
	}
}

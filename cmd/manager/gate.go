package main

import (
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/gating"
)

// gatePolicy is the kind of the admission policy of config/gate.
var gatePolicy = schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicy"}

// gateMode returns whether pods are gated: if that was asked for, and the API server serves the policy.
func gateMode(asked bool, kinds meta.RESTMapper, log logr.Logger) (gating.Mode, error) {
	if !asked {
		return gating.Off, nil
	}
	switch _, err := kinds.RESTMapping(gatePolicy.GroupKind(), gatePolicy.Version); {
	case meta.IsNoMatchError(err):
		log.Error(errors.New(gating.WhyNotServed), "The gate is not available. Leave --gate out, or upgrade Kubernetes and restart the manager")
		return gating.NotServed, nil
	case err != nil:
		return gating.Off, fmt.Errorf("looking for the kind of the gate's policy: %w", err)
	}
	return gating.On, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/servedschema"
)

// crdPoll and crdTimeout bound the wait for the CRDs to be served.
const (
	crdPoll    = time.Second
	crdTimeout = 15 * time.Second
)

// crdGuardInterval is how often a running manager checks the schemas.
const crdGuardInterval = 30 * time.Second

// ownKinds are the kinds of the CRDs, with their Go types.
var ownKinds = map[string]reflect.Type{
	"GcuResource":           reflect.TypeFor[topsv1.GcuResource](),
	"UpgradePolicy":         reflect.TypeFor[topsv1.UpgradePolicy](),
	"UpgradePlan":           reflect.TypeFor[topsv1.UpgradePlan](),
	"DaemonRollout":         reflect.TypeFor[topsv1.DaemonRollout](),
	"NodeUpgrade":           reflect.TypeFor[topsv1.NodeUpgrade](),
	"GcuResourceRecreation": reflect.TypeFor[topsv1.GcuResourceRecreation](),
}

// requireCRDs waits briefly until the CRDs are served with every field that this version writes:
// they may have been applied just before. Then it fails with instructions.
func requireCRDs(ctx context.Context, mgr ctrl.Manager) error {
	for _, kind := range slices.Sorted(maps.Keys(ownKinds)) {
		var err error
		_ = wait.PollUntilContextTimeout(ctx, crdPoll, crdTimeout, true, func(context.Context) (bool, error) {
			_, err = mgr.GetRESTMapper().RESTMapping(topsv1.GroupVersion.WithKind(kind).GroupKind(), topsv1.GroupVersion.Version)
			return !meta.IsNoMatchError(err), nil
		})
		if meta.IsNoMatchError(err) {
			return fmt.Errorf("the cluster does not serve %s of %s: install the CRDs first (kubectl apply --server-side -k config/crd)", kind, topsv1.GroupVersion)
		}
		if err != nil {
			return fmt.Errorf("looking up %s of %s: %w", kind, topsv1.GroupVersion, err)
		}
	}
	return requireFields(ctx, mgr)
}

// requireFields waits briefly until the schemas have every field that this version writes. After that the
// manager ends when a field goes missing: a GitOps tool may apply older CRDs.
func requireFields(ctx context.Context, mgr ctrl.Manager) error {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("setting up a discovery client: %w", err)
	}
	guard := crdGuard{lacks: func(ctx context.Context) error { return lacksFields(ctx, client) }, every: crdGuardInterval, poll: crdPoll, patience: crdTimeout}
	if err := guard.awaitFields(ctx); err != nil {
		return err
	}
	return mgr.Add(guard)
}

// crdGuard ends the manager with an error when the CRDs are replaced by older ones while it runs. The manager
// does not start again until they have all fields: it must not decide by objects of which the API
// server drops a part. Until the guard notices, the API server refuses writes of the missing fields.
type crdGuard struct {
	// lacks returns an error that has a servedschema.Older, if fields are missing.
	lacks func(context.Context) error
	// every is how often it checks, poll how often once fields are missing, and patience for how long: of
	// several API servers, some may still serve the CRDs of a moment ago.
	every, poll, patience time.Duration
}

// NeedLeaderElection returns false: a standby manager has to end as well.
func (crdGuard) NeedLeaderElection() bool { return false }

// Start checks until ctx is done. It returns an error once fields are missing.
func (g crdGuard) Start(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, g.every, false, func(ctx context.Context) (bool, error) {
		var older *servedschema.Older
		if !errors.As(g.lacks(ctx), &older) {
			return false, nil
		}
		if err := g.awaitFields(ctx); errors.As(err, &older) {
			return false, err
		}
		return false, nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// awaitFields waits briefly until no field is missing. When the wait ends, a running request is not canceled, so
// that the error names the missing fields.
func (g crdGuard) awaitFields(ctx context.Context) (err error) {
	_ = wait.PollUntilContextTimeout(ctx, g.poll, g.patience, true, func(context.Context) (bool, error) {
		err = g.lacks(ctx)
		return err == nil, nil
	})
	return err
}

// lacksFields returns an error that names the fields that the served schemas lack, nil for none.
func lacksFields(ctx context.Context, client discovery.DiscoveryInterface) error {
	text, err := client.RESTClient().Get().AbsPath("/openapi/v3/apis", topsv1.GroupVersion.String()).Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("reading the schemas of %s: %w", topsv1.GroupVersion, err)
	}
	served, err := servedschema.Read(text)
	if err != nil {
		return err
	}
	var lacking []error
	for _, kind := range slices.Sorted(maps.Keys(ownKinds)) {
		schema := served.Kind(topsv1.GroupVersion.WithKind(kind))
		if schema == nil {
			lacking = append(lacking, fmt.Errorf("the API server does not publish the schema of %s", kind))
		} else if missing := servedschema.Missing(schema, ownKinds[kind]); len(missing) > 0 {
			lacking = append(lacking, &servedschema.Older{Kind: kind, Missing: missing})
		}
	}
	return errors.Join(lacking...)
}

package drain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
)

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
// +kubebuilder:rbac:groups=apps,resources=daemonsets,verbs=get

// requestTimeout bounds one eviction: for a pod that is not running yet, the API server
// retries for ten seconds before it reports a different UID.
const requestTimeout = 15 * time.Second

// maxFailures is after how many failed requests a pass makes no further ones: where nothing answers, each takes
// requestTimeout, and other nodes wait for this one.
const maxFailures = 3

// Evictor sends one eviction and returns the first response.
type Evictor interface {
	Evict(ctx context.Context, request *policyv1.Eviction) error
}

// NewEvictor returns an Evictor for an API server. The general clients are unsuitable: for a
// budget not yet seen by its controller the API server answers with Retry-After 10 seconds,
// and they wait that long, up to ten times.
func NewEvictor(config *rest.Config, httpClient *http.Client) (Evictor, error) {
	core, err := corev1client.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("making a client for evictions: %w", err)
	}
	return restEvictor{core: core.RESTClient()}, nil
}

type restEvictor struct{ core rest.Interface }

// Evict sends the eviction and returns the first response.
func (e restEvictor) Evict(ctx context.Context, request *policyv1.Eviction) error {
	return e.core.Post().Namespace(request.Namespace).Resource("pods").Name(request.Name).SubResource("eviction").
		MaxRetries(0).Body(request).Do(ctx).Error()
}

// Drainer empties nodes, one pass at a time.
type Drainer struct {
	// Live reads nodes, pods, their claims and DaemonSets past the cache: the manager's cache holds only
	// some pods, and a stale cache must not make a node look empty.
	Live client.Reader
	// Evictor sends evictions.
	Evictor Evictor
	// Metrics counts the evictions. It must be set; the caller calls Ended when the drain of
	// a node has ended.
	Metrics *Metrics
	// Self is the pod of this program.
	Self eviction.Self
	// Ahead, if set, returns how far the clock of this process, which is at now, is ahead of the API server's.
	Ahead func(now time.Time) time.Duration
}

// ErrUncordoned means that someone uncordoned a node after its drain was decided: new pods may be scheduled there and
// would be evicted as well. Observe and decide again.
var ErrUncordoned = errors.New("it is no longer cordoned")

// Pass reads the pods of a node and evicts those that are due by eviction.Decide, one after the
// other, with their UIDs as precondition. Unless that is one pod alone, each eviction is first a dry
// run, also of the pods that leave later: if one is refused, no pod is evicted, so that a drain that
// cannot succeed disturbs no workload. It waits only for the responses. since is when the drain of the node
// began; attempts are those of the last Result, nil for the first pass. An error means that the pods
// could not be read, that the node is not cordoned (ErrUncordoned), or that ctx ended; failures of
// single pods are in the Result. A node that does not exist counts as not Ready.
func (d Drainer) Pass(ctx context.Context, node string, p eviction.Policy, attempts eviction.Attempts, since eviction.Start, now time.Time) (eviction.Result, error) {
	facts, cordoned, err := d.observe(ctx, node, p, now)
	if err == nil && !cordoned {
		err = fmt.Errorf("node %s: %w", node, ErrUncordoned)
	}
	if err != nil {
		return eviction.Result{}, err
	}
	leave, r := eviction.Decide(facts, p, attempts, since, now)
	responses := make([]eviction.Outcome, len(leave))
	if len(leave) > 1 || slices.ContainsFunc(leave, leavesLater) {
		responses = d.tryEach(ctx, node, leave, &p)
	}
	if !slices.ContainsFunc(responses, eviction.Outcome.Stays) {
		for i, o := range leave {
			if leavesLater(o) || tooManyFailed(responses) {
				continue
			}
			before := attempts[o.UID].Outcome.State
			responses[i] = d.evict(ctx, node, o, &p, before != "" && before != eviction.Due)
		}
	}
	r.Add(leave, responses, now)
	d.Metrics.passed(node, r)
	return r, ctx.Err()
}

// DryRun is a pass whose evictions are all dry runs.
func (d Drainer) DryRun(ctx context.Context, node string, p eviction.Policy, attempts eviction.Attempts, since eviction.Start, now time.Time) (eviction.Result, error) {
	facts, _, err := d.observe(ctx, node, p, now)
	if err != nil {
		return eviction.Result{}, err
	}
	leave, r := eviction.Decide(facts, p, attempts, since, now)
	r.Add(leave, d.tryEach(ctx, node, leave, &p), now)
	return r, ctx.Err()
}

// Expect is a pass without requests: a pod to be evicted has the outcome of its last attempt, or
// is Due. Everything else is as for Pass.
func (d Drainer) Expect(ctx context.Context, node string, p eviction.Policy, attempts eviction.Attempts, since eviction.Start, now time.Time) (eviction.Result, error) {
	facts, _, err := d.observe(ctx, node, p, now)
	if err != nil {
		return eviction.Result{}, err
	}
	return eviction.Expect(facts, p, attempts, since, now), nil
}

// Users returns the pods of a node that use its accelerator by the policy, regardless of its scope and
// podSelector, as namespace/name in order; a pod of which that cannot be read counts. Finished pods
// and those of the operator's own DaemonSets do not. An error means that the pods could not be
// read.
func (d Drainer) Users(ctx context.Context, node string, p eviction.Policy) ([]string, error) {
	pods, err := d.list(ctx, node)
	if err != nil {
		return nil, err
	}
	return eviction.Users(Pods(ctx, d.Live, node, pods, p.Accelerator(), Lookups{}), p), nil
}

// Staying returns which of the pods on a node, by the UIDs under which their processes run, a drain
// under the policy leaves there, with their names, namespace/name; without a name those that the API
// server does not have on the node: such a process is not of a pod, or has outlived it. Pods that
// terminate count too, unless the drain waits for them; those that have finished, and those of the
// operator's own DaemonSets, do not. An error means that the pods could not be read.
func (d Drainer) Staying(ctx context.Context, node string, uids []string, p eviction.Policy) (map[string]string, error) {
	pods, err := d.list(ctx, node)
	if err != nil {
		return nil, err
	}
	gone := slices.DeleteFunc(slices.Clone(uids), func(uid string) bool {
		return uid == "" || slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return eviction.ProcessUID(&pod) == uid })
	})
	pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
		return !slices.Contains(uids, eviction.ProcessUID(&pod))
	})
	known := Lookups{}
	leaving := eviction.Leaving(eviction.Facts{NodeReady: true, Pods: Pods(ctx, d.Live, node, pods, p, known), Self: d.Self}, p)
	pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool { return slices.Contains(leaving, pod.UID) })
	names := eviction.NamesByProcess(Pods(ctx, d.Live, node, pods, p.All(), known), p)
	for _, uid := range gone {
		names[uid] = ""
	}
	return names, nil
}

// list reads the pods of a node.
func (d Drainer) list(ctx context.Context, node string) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := d.Live.List(ctx, &list, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return nil, fmt.Errorf("listing pods on node %s: %w", node, err)
	}
	return list.Items, nil
}

// observe reads the facts of a pass, and whether the node is cordoned, or gone. An error means that the
// node or its pods could not be read.
func (d Drainer) observe(ctx context.Context, node string, p eviction.Policy, now time.Time) (f eviction.Facts, cordoned bool, err error) {
	f.Self = d.Self
	if d.Ahead != nil {
		f.Ahead = d.Ahead(now)
	}
	var n corev1.Node
	err = d.Live.Get(ctx, client.ObjectKey{Name: node}, &n)
	if denial.IgnoreNotFound(err) != nil {
		return f, false, fmt.Errorf("reading node %s: %w", node, err)
	}
	if cordoned = n.Spec.Unschedulable || apierrors.IsNotFound(err); err == nil {
		f.NodeReady, _ = daemonset.NodeReady(&n)
	}
	pods, err := d.list(ctx, node)
	if err != nil {
		return f, cordoned, err
	}
	f.Pods = Pods(ctx, d.Live, node, pods, p, Lookups{})
	return f, cordoned, nil
}

// leavesLater reports whether a pod that leaves is not evicted yet.
func leavesLater(o eviction.Outcome) bool { return o.State != "" }

// tooManyFailed reports whether a pass makes no further requests.
func tooManyFailed(responses []eviction.Outcome) bool {
	failed := 0
	for _, r := range responses {
		if r.State == eviction.Failed {
			failed++
		}
	}
	return failed >= maxFailures
}

// tryEach requests the eviction of pods, one by one, as dry runs. A pod that was not asked about has the zero Outcome.
func (d Drainer) tryEach(ctx context.Context, node string, pods []eviction.Outcome, p *eviction.Policy) []eviction.Outcome {
	responses := make([]eviction.Outcome, len(pods))
	for i, o := range pods {
		if tooManyFailed(responses) {
			break
		}
		responses[i] = d.request(ctx, node, o, p, true, 4)
		if responses[i].Stays() {
			d.Metrics.evicted(responses[i].State)
		}
	}
	return responses
}

// evict evicts one pod. Only its first eviction is logged at V(0).
func (d Drainer) evict(ctx context.Context, node string, pod eviction.Outcome, p *eviction.Policy, again bool) eviction.Outcome {
	level := 0
	if again {
		level = 4
	}
	response := d.request(ctx, node, pod, p, false, level)
	d.Metrics.evicted(response.State)
	return response
}

// request sends one eviction and returns the response.
func (d Drainer) request(ctx context.Context, node string, pod eviction.Outcome, p *eviction.Policy, dryRun bool, level int) eviction.Outcome {
	log.FromContext(ctx).V(level).Info("Evicting Pod", "Pod", klog.KRef(pod.Pod.Namespace, pod.Pod.Name), "Node", node, "dryRun", dryRun)
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return eviction.ResponseTo(pod, dryRun, d.Evictor.Evict(ctx, eviction.Request(pod, p, dryRun)))
}

package hostile

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/foreign"
	"github.com/topsops/gcu-operator/pkg/upgradeapi"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// serveAPI serves the REST API with the manager's rights and returns its address.
func serveAPI(t *testing.T, s *apiserver.Server, change func(*upgradeapi.Options)) string {
	t.Helper()
	live := s.Client(t, apiserver.Operator)
	o := upgradeapi.Options{Client: live, Namespace: apiserver.Namespace, Blueprints: t.TempDir(), Log: logr.Discard(), Clock: clock.RealClock{},
		Access: upgradeapi.NewTokenAccess(live, clock.RealClock{}), Hosts: foreign.Hosts(netip.IPv6Unspecified())}
	if change != nil {
		change(&o)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- (&upgradeapi.Server{API: upgradeapi.New(o), Listener: listener, Log: logr.Discard()}).Start(ctx)
	}()
	t.Cleanup(func() {
		stop()
		check(t, <-ended)
	})
	return listener.Addr().String()
}

// tokenOf returns a token of a new ServiceAccount that has a ClusterRole.
func tokenOf(t *testing.T, s *apiserver.Server, name, role string) string {
	t.Helper()
	admin := s.Client(t, apiserver.Admin)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: apiserver.Namespace, Name: name}}
	check(t, admin.Create(t.Context(), account))
	check(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: apiserver.Namespace, Name: name}}}))
	s.AwaitRights(t, "system:serviceaccount:"+apiserver.Namespace+":"+name)
	return tokenFor(t, s, name)
}

// tokenFor returns a token of a ServiceAccount for audiences; without any, for the API server.
func tokenFor(t *testing.T, s *apiserver.Server, name string, audiences ...string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: apiserver.Namespace, Name: name}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	check(t, s.Client(t, apiserver.Admin).SubResource("token").Create(t.Context(), account, request))
	return request.Status.Token
}

// callAPI returns status and body of a response of the REST API.
func callAPI(t *testing.T, token, method, url, body string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	check(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	check(t, err)
	defer func() { _ = response.Body.Close() }()
	got, err := io.ReadAll(response.Body)
	check(t, err)
	return response.StatusCode, string(got)
}

// Somebody who may only read sends 1200 requests with megabytes that never end: they are neither
// stored nor waited for, and others are answered. How fast is logged, not judged.
func TestSlowBodiesOfAReaderFillNothing(t *testing.T) {
	s := cluster(t)
	viewer, other := tokenOf(t, s, "slow-viewer", "gcu-view"), tokenOf(t, s, "patient-viewer", "gcu-view")
	const each, sent = 1 << 20, 1<<20 - 1
	for _, tt := range []struct {
		name, method, path string
		clients            int
		statuses           string
	}{
		{"GETs are answered without their bodies", http.MethodGet, "/gum/v1/gr", 1200, "200 429 504"}, // 504: the API server is busy
		{"plans are refused beyond the bound", http.MethodPost, "/gum/v1/gr/none/plan", 300, "429"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			address := serveAPI(t, s, func(o *upgradeapi.Options) { o.Rates = upgradeapi.Rates{Reads: 5000, Writes: 1000} })
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			answered, body := make(chan int, tt.clients), strings.Repeat(" ", sent)
			var open atomic.Int64 // requests whose last byte is not sent, and will not be
			var clients sync.WaitGroup
			for range tt.clients {
				clients.Go(func() {
					connection, err := net.Dial("tcp", address)
					if err != nil {
						return
					}
					t.Cleanup(func() { _ = connection.Close() })
					_, _ = fmt.Fprintf(connection, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", tt.method, tt.path, address, viewer, each)
					open.Add(1)
					_, _ = io.WriteString(connection, body)
					go func() {
						status := 0 // the answer is lost with a connection that ends before its body was read
						if response, err := http.ReadResponse(bufio.NewReader(connection), nil); err == nil {
							_ = response.Body.Close()
							status = response.StatusCode
						}
						answered <- status
					}()
				})
			}
			clients.Wait()
			fastest, slowest := patience, time.Duration(0) // logged only: the clients of the attack keep this machine busy too
			for range 10 {
				begin := time.Now()
				if status, body := callAPI(t, other, http.MethodGet, "http://"+address+"/gum/v1/gr", ""); status != http.StatusOK {
					t.Errorf("somebody else is answered with %d %s", status, body)
				}
				lasted := time.Since(begin)
				fastest, slowest = min(fastest, lasted), max(slowest, lasted)
			}
			t.Logf("somebody else is answered after %s to %s", fastest, slowest)
			if n := open.Load(); n != int64(tt.clients) {
				t.Errorf("somebody else was answered while %d of %d slow requests were in progress", n, tt.clients)
			}
			lost := 0
			for range tt.clients - 8 {
				select {
				case status := <-answered:
					if status == 0 {
						lost++
					} else if !strings.Contains(tt.statuses, fmt.Sprint(status)) {
						t.Fatalf("answered with %d", status)
					}
				case <-time.After(patience):
					t.Fatal("requests with slow bodies are not answered")
				}
			}
			if lost > tt.clients/10 {
				t.Errorf("%d of %d requests with slow bodies have no answer", lost, tt.clients)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 64<<20 {
				t.Errorf("the bodies hold %d MiB", grown>>20)
			}
		})
	}
}

// DNS rebinding: the name of a page's own site leads to the manager.
func TestAPageOfAnotherSiteDoesNotCallTheRESTAPI(t *testing.T) {
	address := serveAPI(t, cluster(t), func(o *upgradeapi.Options) { o.Access = nil })
	for _, tt := range []struct {
		host, origin string
		status       int
	}{
		{address, "", http.StatusOK},
		{"10.1.2.3:32765", "", http.StatusOK},
		{"evil.example:32765", "", http.StatusMisdirectedRequest},
		{"evil.example:32765", "http://evil.example:32765", http.StatusMisdirectedRequest},
	} {
		for _, path := range []string{"/gum/v1/gr", "/gum/v1/openapi.yaml", "/nowhere"} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
			check(t, err)
			request.Host = tt.host
			if tt.origin != "" {
				request.Header.Set("Origin", tt.origin)
			}
			response, err := http.DefaultClient.Do(request)
			check(t, err)
			_ = response.Body.Close()
			if got := response.StatusCode; got != tt.status && (got != http.StatusNotFound || tt.status != http.StatusOK) {
				t.Errorf("GET %s with Host %s is answered with %d, want %d", path, tt.host, got, tt.status)
			}
		}
	}
}

// Without authentication, whoever reaches the port is one limited identity: not the manager.
func TestUnauthenticatedRequestsDoNotHaveTheRightsOfTheManager(t *testing.T) {
	s := cluster(t)
	admin := s.Client(t, apiserver.Admin)
	check(t, admin.Create(t.Context(), &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "anonymous"}}))
	blueprints := t.TempDir()
	check(t, os.WriteFile(filepath.Join(blueprints, "gr.json"),
		[]byte(`{"apiVersion": "topsops.enflame.com/v1", "kind": "GcuResource", "metadata": {"name": "anonymous"}, "spec": {"driver": {"version": "2"}}}`), 0o600))
	config := managerConfig(t, s)
	own, err := client.New(config, client.Options{Scheme: s.Scheme})
	check(t, err)
	impersonator, err := upgradeapi.NewImpersonator(own, config, logr.Discard())
	check(t, err)
	serve := func(user string) string {
		address := serveAPI(t, s, func(o *upgradeapi.Options) {
			o.Anonymous, o.Blueprints, o.Planner, o.Client, o.Impersonator = user, blueprints, noPlanner{}, own, impersonator
		})
		return "http://" + address + "/gum/v1/gr"
	}
	named, unbound := serve("gcu-operator:anonymous"), serve("gcu-operator:nobody")
	for _, tt := range []struct {
		name, method, url, body string
		status                  int
		says                    string
	}{
		{"the guide's GET", http.MethodGet, named + "/anonymous", "", http.StatusOK, ""},
		{"the guide's PUT", http.MethodPut, named + "/anonymous", `{"file": "gr.json"}`, http.StatusOK, ""},
		{"a spec, which may name any image", http.MethodPut, named + "/anonymous", `{"spec": {"driver": {"version": "3"}}}`, http.StatusForbidden, "takes blueprints only"},
		{"a spec to recreate from", http.MethodPut, named + "/anonymous", `{"mode": "recreate", "spec": {}}`, http.StatusForbidden, "takes blueprints only"},
		{"a plan of a spec", http.MethodPost, named + "/anonymous/plan", `{"spec": {}}`, http.StatusForbidden, "takes blueprints only"},
		{"a plan, which has a spec", http.MethodPut, named + "/anonymous/plan", planText("anonymous"), http.StatusForbidden, "runs no plans"},
		{"somebody whose role was not given", http.MethodGet, unbound, "", http.StatusForbidden, "gcu-operator:nobody"},
	} {
		if status, body := callAPI(t, "", tt.method, tt.url, tt.body); status != tt.status || !strings.Contains(body, tt.says) {
			t.Errorf("%s: %d %s, want %d and %q", tt.name, status, body, tt.status, tt.says)
		}
	}
	if status, body := resumeHalted(t, s, "anonymous", named+"/anonymous", ""); status != http.StatusOK {
		t.Errorf("resuming a halted rollout: %d %s", status, body)
	}
	gr := &topsv1.GcuResource{}
	check(t, admin.Get(t.Context(), client.ObjectKey{Name: "anonymous"}, gr))
	if gr.Spec.Driver == nil || gr.Spec.Driver.Version != "2" {
		t.Errorf("the spec is %+v", gr.Spec)
	}
}

// resumeHalted resumes a halted rollout of a gr through the REST API.
func resumeHalted(t *testing.T, s *apiserver.Server, gr, url, token string) (int, string) {
	t.Helper()
	admin := s.Client(t, apiserver.Admin)
	rollout := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: apiserver.Namespace, Name: gr},
		Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: topsv1.GcuResourceKind, Name: gr}}}
	check(t, admin.Create(t.Context(), rollout))
	rollout.Status.Conditions = []metav1.Condition{{Type: topsv1.RolloutHalted, Status: metav1.ConditionTrue, Reason: "CrashLoop", LastTransitionTime: metav1.Now()}}
	check(t, admin.Status().Update(t.Context(), rollout))
	status, body := callAPI(t, token, http.MethodPost, url+"/resume", "")
	check(t, admin.Get(t.Context(), client.ObjectKeyFromObject(rollout), rollout))
	if _, resumed := rollout.Annotations[topsv1.AnnotationResume]; resumed != (status == http.StatusOK) {
		t.Errorf("the answer is %d, and the rollout resumed: %t", status, resumed)
	}
	return status, body
}

// noPlanner plans nothing, and has no objection to a plan.
type noPlanner struct{ upgradeapi.Planner }

// CheckPlan implements upgradeapi.Planner: every plan fits.
func (noPlanner) CheckPlan(context.Context, *planfile.Plan, *topsv1.GcuResource, *topsv1.GcuResource) (string, error) {
	return "", nil
}

// Refused implements upgradeapi.Planner: every version may follow every other.
func (noPlanner) Refused(context.Context, *topsv1.GcuResource, *topsv1.GcuResource) (string, error) {
	return "", nil
}

// planText returns a plan for a gr.
func planText(gr string) string {
	return fmt.Sprintf(`{"apiVersion": "topsops.enflame.com/v1", "kind": "UpgradePlan", "metadata": {"name": "plan-of-%[1]s"}, "spec": {"gcuResource": %[1]q, "revision": "any",
		"wanted": {"driver": {"version": "4"}}, "jobs": [{"name": "j", "stages": [["nfd_replace"]]}], "batches": [{"name": "b", "jobs": [{"job": "j", "nodes": ["n"]}]}]}}`, gr)
}

package hostile

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeapi"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// managerConfig returns a configuration with a token of the manager.
func managerConfig(t *testing.T, s *apiserver.Server) *rest.Config {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: apiserver.Namespace, Name: "gcu-operator"}}
	request := &authenticationv1.TokenRequest{}
	check(t, s.Client(t, apiserver.Admin).SubResource("token").Create(t.Context(), account, request))
	config := rest.AnonymousClientConfig(s.As(apiserver.Admin))
	config.BearerToken = request.Status.Token
	return config
}

// The REST API writes with the rights of its caller: what RBAC does not allow the caller is refused by the
// API server itself, and the manager impersonates nobody for anything else.
func TestTheRESTAPIActsAsItsCaller(t *testing.T) {
	s := cluster(t)
	since136(t, s, "constrained impersonation")
	admin, config := s.Client(t, apiserver.Admin), managerConfig(t, s)
	check(t, admin.Create(t.Context(), &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "of-callers"}}))
	for name, verbs := range map[string][]string{"updates-only": {"get", "update"}, "writes": {"get", "update", "patch"}} {
		check(t, admin.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name},
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{topsv1.GroupVersion.Group}, Resources: []string{"gcuresources"}, Verbs: verbs}}}))
	}
	updater, writer := tokenOf(t, s, "updates-only", "updates-only"), tokenOf(t, s, "writes", "writes")
	own, err := client.New(config, client.Options{Scheme: s.Scheme})
	check(t, err)
	impersonator, err := upgradeapi.NewImpersonator(own, config, logr.Discard())
	check(t, err)
	url := "http://" + serveAPI(t, s, func(o *upgradeapi.Options) { o.Client, o.Impersonator, o.Planner = own, impersonator, noPlanner{} }) + "/gum/v1/gr/of-callers"
	if status, body := callAPI(t, writer, http.MethodPost, url+"/pause", ""); status != http.StatusOK {
		t.Errorf("pausing as oneself is answered with %d %s", status, body)
	}
	gr := &topsv1.GcuResource{}
	check(t, admin.Get(t.Context(), client.ObjectKey{Name: "of-callers"}, gr))
	if got, want := gr.Annotations[topsv1.AnnotationLastAuthor], "system:serviceaccount:kube-system:writes"; got != want || gr.Annotations[topsv1.AnnotationPaused] != "true" {
		t.Errorf("the annotations are %v, want author %s", gr.Annotations, want)
	}
	if status, body := resumeHalted(t, s, "of-callers", url, writer); status != http.StatusForbidden {
		t.Errorf("somebody who may not write DaemonRollouts clears the failures of one: %d %s", status, body)
	}
	// The manager could patch; its caller cannot.
	if status, body := callAPI(t, updater, http.MethodPut, url, `{"spec": {"driver": {"version": "9"}}}`); status != http.StatusForbidden {
		t.Errorf("somebody who may not patch is answered with %d %s", status, body)
	}
	plansAreTheCallers(t, s, url, writer)

	for _, tt := range []struct {
		name string
		call func(c client.Client) error
	}{
		{"reading Secrets", func(c client.Client) error { return c.List(t.Context(), &corev1.SecretList{}) }},
		{"creating Pods", func(c client.Client) error {
			return c.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: apiserver.Namespace, Name: "x"}})
		}},
		{"writing a status", func(c client.Client) error { return c.Status().Patch(t.Context(), gr.DeepCopy(), client.Merge) }},
		{"listing grs", func(c client.Client) error { return c.List(t.Context(), &topsv1.GcuResourceList{}) }},
	} {
		for _, who := range []rest.ImpersonationConfig{{UserName: "system:admin", Groups: []string{"cluster-admins"}}, {UserName: "system:serviceaccount:kube-system:clusterrole-aggregation-controller"}} {
			as := rest.CopyConfig(config)
			as.Impersonate = who
			c, err := client.New(as, client.Options{Scheme: s.Scheme})
			check(t, err)
			if err := tt.call(c); !apierrors.IsForbidden(err) {
				t.Errorf("%s as %s with the token of the manager: %v", tt.name, who.UserName, err)
			}
		}
	}
}

// plansAreTheCallers: a plan is stored with the rights of the caller. writer may change grs.
func plansAreTheCallers(t *testing.T, s *apiserver.Server, url, writer string) {
	t.Helper()
	rule := func(resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{topsv1.GroupVersion.Group}, Resources: []string{resource}, Verbs: verbs}
	}
	roleOf(t, s, "plans-too", rule("gcuresources", "get", "update", "patch"), rule("upgradeplans", "create", "update"))
	planner := tokenOf(t, s, "plans-too", "plans-too")
	for _, tt := range []struct {
		name, token string
		status      int
		says        string
	}{
		{"who may not create plans", writer, http.StatusForbidden, "cannot create upgradeplans"},
		{"who may", planner, http.StatusOK, ""},
		// The manager could patch; its caller may only update, which is enough for nobody else's API.
		{"who may not patch it", planner, http.StatusForbidden, "cannot patch resource"},
	} {
		text := planText("of-callers")
		if tt.name == "who may not patch it" {
			text = strings.Replace(text, `"name": "b"`, `"name": "other"`, 1)
		}
		if status, body := callAPI(t, tt.token, http.MethodPut, url+"/plan", text); status != tt.status || !strings.Contains(body, tt.says) {
			t.Errorf("%s: %d %s, want %d and %q", tt.name, status, body, tt.status, tt.says)
		}
	}
}

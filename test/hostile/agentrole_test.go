package hostile

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// TestTheRoleOfTheAgent compares all rights of an agent, without the self-review rights
// that every user has, and the roots of trust that every account may read.
func TestTheRoleOfTheAgent(t *testing.T) {
	p := sharedPlane(t)
	agent := p.as(t, p.agentInPod(t, p.addNode(t, "role")))
	for in, want := range map[string][]string{
		"default": {
			"create topsops.enflame.com nodeupgrades", "get  nodes", "get  pods", "get apps controllerrevisions", "get apps daemonsets", "get topsops.enflame.com nodeupgrades", "list  pods",
			"list topsops.enflame.com nodeupgrades", "patch topsops.enflame.com nodeupgrades/status", "watch topsops.enflame.com nodeupgrades",
		},
		namespace: {
			"create topsops.enflame.com nodeupgrades", "get  nodes", "get  pods", "get  secrets gcu-pull-secret", "get apps controllerrevisions", "get apps daemonsets", "get topsops.enflame.com nodeupgrades", "list  pods",
			"list topsops.enflame.com nodeupgrades", "patch topsops.enflame.com nodeupgrades/status", "watch topsops.enflame.com nodeupgrades",
		},
	} {
		review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: in}}
		check(t, agent.Create(t.Context(), review))
		if review.Status.Incomplete {
			t.Fatalf("the API server's list of rights is incomplete: %s", review.Status.EvaluationError)
		}
		if diff := cmp.Diff(want, rightsOf(review.Status.ResourceRules)); diff != "" {
			t.Errorf("rights in namespace %s (-want +got):\n%s", in, diff)
		}
	}
}

// rightsOf returns one line per verb and resource.
func rightsOf(rules []authorizationv1.ResourceRule) []string {
	var rights []string
	for _, rule := range rules {
		for _, verb := range rule.Verbs {
			for _, group := range rule.APIGroups {
				if group == "authorization.k8s.io" || group == "authentication.k8s.io" {
					continue
				}
				if slices.Equal(rule.Resources, []string{"clustertrustbundles"}) { // since Kubernetes 1.37
					continue
				}
				for _, resource := range rule.Resources {
					right := verb + " " + group + " " + resource
					for _, name := range rule.ResourceNames {
						right += " " + name
					}
					rights = append(rights, right)
				}
			}
		}
	}
	slices.Sort(rights)
	return slices.Compact(rights)
}

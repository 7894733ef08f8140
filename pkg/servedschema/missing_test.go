package servedschema

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

type slot struct {
	Node  string           `json:"node"`
	Since metav1.Time      `json:"since"`
	Turn  int64            `json:"turn,omitempty"`
	Most  *slotLimit       `json:"most,omitempty"`
	Pools map[string]*slot `json:"-"`
}

type slotLimit struct {
	Count *intstr.IntOrString `json:"count,omitempty"`
}

type ledger struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Slots             []slot               `json:"slots,omitempty"`
	Limits            map[string]slotLimit `json:"limits,omitempty"`
}

const whole = `{"properties": {"kind": {}, "apiVersion": {}, "metadata": {"type": "object"},
	"limits": {"additionalProperties": {"properties": {"count": {}}}},
	"slots": {"items": {"properties": {"node": {}, "since": {}, "turn": {}, "most": {"properties": {"count": {}}}}}}}}`

func TestMissing(t *testing.T) {
	for _, tt := range []struct {
		name, from, to string
		want           []string
	}{
		{"nothing, if every field has a schema", "", "", nil},
		{"a field in a list", `"turn": {}, `, "", []string{"slots[].turn"}},
		{"a field in an optional struct", `"most": {"properties": {"count": {}}}`, `"most": {}`, []string{"slots[].most.count"}},
		{"a struct, and not each of its fields", `, "most": {"properties": {"count": {}}}`, "", []string{"slots[].most"}},
		{"a field in a map", `"additionalProperties": {"properties": {"count": {}}}`, `"additionalProperties": {}`, []string{"limits{}.count"}},
		{"a map of a struct without values", `"additionalProperties": {"properties": {"count": {}}}`, `"additionalProperties": false`, []string{"limits{}"}},
		{"not what any value is preserved for", `"items": {"properties": {"node": {}, "since": {}, "turn": {}, `,
			`"items": {"x-kubernetes-preserve-unknown-fields": true, "properties": {`, nil},
		{"not the values of a map that takes any", `"additionalProperties": {"properties": {"count": {}}}`, `"additionalProperties": true`, nil},
		{"metadata of the object itself", `"metadata": {"type": "object"},`, "", []string{"metadata"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(whole, tt.from, tt.to, 1)
			var s Schema
			if err := json.Unmarshal([]byte(text), &s); err != nil || (text == whole) != (tt.from == "") {
				t.Fatalf("%v in %s", err, text)
			}
			if diff := cmp.Diff(tt.want, Missing(&s, reflect.TypeFor[ledger]())); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
		})
	}
}

// shipped returns the schema in a CRD of this version.
func shipped(t *testing.T, plural string) *Schema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", "topsops.enflame.com_"+plural+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema *Schema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

func TestTheShippedCRDsHaveEveryField(t *testing.T) {
	for plural, of := range map[string]reflect.Type{
		"daemonrollouts": reflect.TypeFor[topsv1.DaemonRollout](), "nodeupgrades": reflect.TypeFor[topsv1.NodeUpgrade](),
		"upgradepolicies": reflect.TypeFor[topsv1.UpgradePolicy](), "gcuresources": reflect.TypeFor[topsv1.GcuResource](),
	} {
		if missing := Missing(shipped(t, plural), of); len(missing) > 0 {
			t.Errorf("%s: %v", plural, missing)
		}
	}
}

func TestAnOlderCRDIsReportedByKindAndFields(t *testing.T) {
	s := shipped(t, "daemonrollouts")
	slot := s.Properties["status"].Properties["inFlight"].Items
	for _, name := range []string{"turn", "podUID", "podVersion", "operation", "step", "uid"} {
		delete(slot.Properties, name)
	}
	got := (&Older{"DaemonRollout", Missing(s, reflect.TypeFor[topsv1.DaemonRollout]())}).Error()
	want := "the CRD of DaemonRollout is older than this manager and lacks status.inFlight[].operation, status.inFlight[].podUID, " +
		"status.inFlight[].podVersion, status.inFlight[].step, status.inFlight[].turn and 1 more, which the API server would drop: " +
		"apply the CRDs of this version first (kubectl apply --server-side -k config/crd)"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

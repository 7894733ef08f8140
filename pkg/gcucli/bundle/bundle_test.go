package bundle

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/topsops/gcu-operator/test/fixture"
)

// sentinel is in every secret of the tests.
const sentinel = "hunter2"

// Every line has the sentinel in a place that must be redacted.
const secrets = `
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: exporter
  managedFields: [{manager: hunter2}]
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: '{"env":[{"name":"X","value":"hunter2"}]}'
    example.com/db-password: hunter2
    example.com/note: the token=hunter2 is new
spec:
  apiToken: hunter2
  secretKey: hunter2
  template:
    spec:
      initContainers:
      - env: [{name: A, value: hunter2}]
      containers:
      - name: main
        image: registry.example.com/exporter:1
        env:
        - {name: MYSQL_ROOT_PASSWORD, value: hunter2}
        - {name: PLAIN_LOOKING, value: hunter2}
        args: ["--listen=:9400", "--auth-token=hunter2", --password, hunter2, "mysql://root:hunter2@db/n9e", "-api-key", "hunter2", "--etcd-s3-secret-key=hunter2", --secret-key, hunter2, "--notify-url=https://example.com/hunter2", --notify-url, "https://example.com/hunter2"]
        command: [sh, -c, "export DB_PASSWORD='hunter2 x'; curl -H 'Authorization: Bearer hunter2hunter2' x"]
        livenessProbe: {httpGet: {path: /, httpHeaders: [{name: X-Any, value: hunter2}]}}
data:
  spec: {template: {spec: {containers: [{env: [{name: A, value: hunter2}]}]}}}
status:
  message: "pulling failed: https://user:hunter2@registry.example.com: secret: hunter2"
`

// These must be kept.
var kept = []string{"registry.example.com/exporter:1", "--listen=:9400", "DB_PASSWORD", "MYSQL_ROOT_PASSWORD", "PLAIN_LOOKING",
	"name: exporter", "the token=" + Redacted + " is new", "mysql://" + Redacted + "@db/n9e", "pulling failed: https://" + Redacted + "@registry.example.com"}

func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	var o map[string]any
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// spoolOf returns an empty file.
func spoolOf(t *testing.T) *os.File {
	t.Helper()
	spool, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { spool.Close() })
	return spool
}

// A fleet has gigabytes of pods: an object is not kept when the next one is read.
func TestObjectsAreWrittenOneByOne(t *testing.T) {
	b, spool, spooled := New(io.Discard, "root", time.Unix(0, 0)), spoolOf(t), int64(0)
	err := b.Objects("objects/pod.yaml", func(yield func(map[string]any) bool) {
		for range 100 {
			if !yield(map[string]any{"kind": "Pod", "status": strings.Repeat("x", 1000)}) {
				t.Error("it stops reading")
			}
		}
		info, err := spool.Stat()
		if err != nil {
			t.Fatal(err)
		}
		spooled = info.Size()
	}, spool)
	if err := errors.Join(err, b.Close()); err != nil || spooled < 90_000 {
		t.Errorf("%v; %d bytes are written when the last object is read", err, spooled)
	}
}

func TestObjectsLoseTheirSecretsAndKeepTheRest(t *testing.T) {
	object := decoded(t, secrets)
	var out bytes.Buffer
	b := New(&out, "root", time.Unix(0, 0))
	if err := b.Objects("objects/daemonset.yaml", slices.Values([]map[string]any{object}), spoolOf(t)); err != nil {
		t.Fatal(err)
	}
	if err := b.Text("logs/a.log", "started with token=hunter2\n"); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	files := fixture.FilesOf(t, &out)
	if got, want := files["root/logs/a.log"], "started with token="+Redacted+"\n"; got != want {
		t.Errorf("the log is %q, want %q", got, want)
	}
	text := files["root/objects/daemonset.yaml"]
	if strings.Contains(text, sentinel) {
		t.Errorf("a secret is left:\n%s", text)
	}
	for _, want := range kept {
		if !strings.Contains(text, want) {
			t.Errorf("%q is gone:\n%s", want, text)
		}
	}
	if diff := cmp.Diff(decoded(t, secrets), object); diff != "" {
		t.Errorf("the object was changed: %s", diff)
	}
}

func TestHarmlessValuesStay(t *testing.T) {
	const object = `
kind: Pod
spec:
  serviceAccountName: x
  imagePullSecrets: [{name: gcu-pull-secret}]
  pullSecrets: [gcu-pull-secret]
  automountServiceAccountToken: false
  containers:
  - env:
    - {name: WITH_REBOOT, value: "false"}
    - {name: ENFLAME_VISIBLE_DEVICES, value: all}
    - {name: FROM, valueFrom: {secretKeyRef: {name: s, key: k}}}
    - {name: EMPTY, value: ""}
    args: [--kubeconfig, /etc/kubeconfig, --v=4]
status: {message: "2 of 3 pods at the newest revision; paused: no new node is started", reason: TokenReviewFailed}
`
	if diff := cmp.Diff(decoded(t, object), redact(decoded(t, object))); diff != "" {
		t.Errorf("it was changed (-want +got):\n%s", diff)
	}
}

func TestASecretLosesItsData(t *testing.T) {
	got := redact(decoded(t, `{kind: Secret, metadata: {name: x}, data: {a: aHVudGVyMg==}, stringData: {b: hunter2}}`))
	if diff := cmp.Diff(decoded(t, `{kind: Secret, metadata: {name: x}}`), got); diff != "" {
		t.Error(diff)
	}
}

func TestTextLosesItsSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"level=info password=hunter2 next":                                              "level=info password=" + Redacted + " next",
		`{"token":"hunter2","node":"n1"}`:                                               `{"token":` + Redacted + `,"node":"n1"}`,
		`api_key: 'hunter2 and more', x`:                                                `api_key: ` + Redacted + `, x`,
		"Authorization: Basic aHVudGVyMjpodW50ZXIy":                                     "Authorization: " + Redacted + " " + Redacted,
		"got eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl from x":                  "got " + Redacted + " from x",
		"https://bob:hunter2@example.com/x":                                             "https://" + Redacted + "@example.com/x",
		"-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----\nnext": Redacted + "\nnext",
		"-----BEGIN PRIVATE KEY-----\nhunter2 cut off":                                  Redacted,
		"MYSQL_PASSWORD=hunter2":                                                        "MYSQL_PASSWORD=" + Redacted,
		"the basic password: hunter2":                                                   "the basic " + Redacted + ": " + Redacted,
		"auth:\n  password: hunter2":                                                    "auth:\n  password: " + Redacted,
		"auth: {password: hunter2}":                                                     "auth: {password: " + Redacted,
		`auth: {"password": "hunter2 x"}`:                                               `auth: {"password": ` + Redacted + "}",
		`"{\"password\":\"hunter2 x\"}"`:                                                `"{\"password\":` + Redacted + `}"`,
		"S3_SECRET_KEY=hunter2 x":                                                       "S3_SECRET_KEY=" + Redacted + " x",
		`{"password":"a\"hunter2","node":"n1"}`:                                         `{"password":` + Redacted + `,"node":"n1"}`,
		`"{\"password\":\"a\\\"hunter2\",\"node\":\"n1\"}"`:                             `"{\"password\":` + Redacted + `,\"node\":\"n1\"}"`,
		`password="C:\hunter2\" next`:                                                   `password=` + Redacted + ` next`,
		"mysql://root:p@hunter2@db/n9e":                                                 "mysql://" + Redacted + "@db/n9e",
		"Restarting docker, task n1_node_restart":                                       "Restarting docker, task n1_node_restart",
	} {
		got := scrub(text)
		if strings.Contains(got, sentinel) {
			t.Errorf("%q became %q", text, got)
		}
		if !strings.HasPrefix(text, "Authorization") && got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestABundleReportsAFailedWrite(t *testing.T) {
	b := New(broken{}, "root", time.Unix(0, 0))
	if err := errors.Join(b.Text("a", "b"), b.Close()); err == nil {
		t.Error("no error")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

// People look at a bundle in a terminal; an agent must not make it fail either.
func TestABundleIsPlain(t *testing.T) {
	var out bytes.Buffer
	b := New(&out, "root", time.Now())
	if err := errors.Join(b.Objects("o.yaml", slices.Values([]map[string]any{{"kind": "X", "status": "\x7f\u009b\u202e"}}), spoolOf(t)), b.Text("x.log", "a\x1b[2J\n"), b.Close()); err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(zip)
	if err != nil || bytes.ContainsAny(content, "\x7f\u009b\u202e\x1b") || !bytes.Contains(content, []byte(`a\u001b[2J`)) {
		t.Errorf("%v: %q", err, content)
	}
}

package hosttasks

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestTheHostIsReported(t *testing.T) {
	s := newSite(t, "report")
	s.updateStatus(func(n *topsv1.NodeUpgrade) { n.Status.Agent = &topsv1.AgentStatus{Version: "of another writer"} })
	s.start()
	until(t, "the host is reported", func() bool { return s.nodeUpgrade().Status.Host != nil })
	n := s.nodeUpgrade()
	host := n.Status.Host
	if host.FreeDiskBytes == nil || *host.FreeDiskBytes <= 0 || host.Time.IsZero() {
		t.Errorf("disk %v, time %s", host.FreeDiskBytes, host.Time)
	}
	if host.Runtime == nil || host.Runtime.StartTime == nil || host.Runtime.StartTime.Unix() < 1700000000 {
		t.Fatalf("runtime %+v, want since when it runs", host.Runtime)
	}
	stops := true
	cards := int32(2)
	want := &topsv1.HostReport{Time: host.Time, FreeDiskBytes: host.FreeDiskBytes, BootID: "boot-1", DriverVersion: "1.0", Devices: &cards,
		Runtime:              &topsv1.RuntimeReport{Engine: "docker", Version: "27.0", Default: "runc", RestartStopsContainers: &stops, StartTime: host.Runtime.StartTime},
		DeviceHoldersVisible: new(bool)} // a host without /proc shows no process
	if diff := cmp.Diff(want, host); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if n.Status.Agent == nil {
		t.Error("it has removed what another part of the agent shows")
	}
	if !slices.ContainsFunc(n.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == FieldManager && f.Subresource == "status" && f.Operation == metav1.ManagedFieldsOperationApply
	}) {
		t.Errorf("no field manager %s applied the status", FieldManager)
	}

	s.updateStatus(func(n *topsv1.NodeUpgrade) { n.Status.Host = nil })
	until(t, "a report that was wiped is back", func() bool { return s.nodeUpgrade().Status.Host != nil })
}

func TestThePrepullIsDoneOncePerAttempt(t *testing.T) {
	s := newSite(t, "prepull")
	s.host.write("registry/down", "")
	s.start()
	s.ask("op-1", 1, nil, "driver_prepull")
	r := s.untilAnswered("op-1", "driver_prepull", 1)
	if r.State != topsv1.HostTaskFailed || r.Reason != "PullFailed" || !strings.Contains(r.Message, "the registry is down") || r.EndTime == nil {
		t.Errorf("result %+v", r)
	}
	s.host.remove("registry/down")
	s.ask("op-1", 2, nil, "driver_prepull")
	r = s.untilAnswered("op-1", "driver_prepull", 2)
	if r.State != topsv1.HostTaskDone || r.Reason != "Pulled" || !s.host.has("r.example/driver:2") {
		t.Errorf("result %+v, want the image", r)
	}
	s.ask("op-2", 1, nil, "driver_prepull")
	if r := s.untilAnswered("op-2", "driver_prepull", 1); r.State != topsv1.HostTaskDone || r.Reason != "Present" {
		t.Errorf("result of the next operation %+v", r)
	}
	if r := s.result("op-1", "driver_prepull"); r.Attempt != 2 || r.State != topsv1.HostTaskDone {
		t.Errorf("the operation before is shown as %+v", r)
	}
}

func TestPullSecrets(t *testing.T) {
	s := newSite(t, "secrets")
	s.host.write("registry/password", "s3cret")
	config, err := json.Marshal(map[string]any{"auths": map[string]any{"r.example": map[string]string{"username": "robot", "password": "s3cret"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gcu-pull-secret", "another-secret"} {
		s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Type: corev1.SecretTypeDockerConfigJson,
			Data: map[string][]byte{corev1.DockerConfigJsonKey: config}})
	}
	with := func(names ...string) func(*topsv1.NodeUpgrade) {
		return func(n *topsv1.NodeUpgrade) { n.Spec.Operation.Targets[0].PullSecrets = names }
	}
	s.start()

	s.ask("forbidden", 1, with("another-secret"), "driver_prepull")
	r := s.untilAnswered("forbidden", "driver_prepull", 1)
	want := "the node agent cannot read pull secret kube-system/another-secret"
	left := "image r.example/driver:2 is not pulled in advance: the kubelet pulls it when the pod starts"
	if r.State != topsv1.HostTaskDone || r.Reason != "LeftToKubelet" || !strings.HasPrefix(r.Message, want) || !strings.Contains(r.Message, left) || !strings.Contains(r.Message, "unauthorized") {
		t.Errorf("result %+v, want that it %q, that the %s, and what came without it", r, want, left)
	}
	s.ask("allowed", 1, with("another-secret", "gcu-pull-secret"), "driver_prepull")
	r = s.untilAnswered("allowed", "driver_prepull", 1)
	if r.State != topsv1.HostTaskDone || r.Reason != "Pulled" || !strings.HasPrefix(r.Message, want) {
		t.Errorf("result %+v", r)
	}
	s.ask("there", 1, with("another-secret"), "driver_prepull")
	if r := s.untilAnswered("there", "driver_prepull", 1); r.State != topsv1.HostTaskDone || r.Reason != "Present" {
		t.Errorf("result %+v of an image that is there", r)
	}
	for _, file := range s.journaled() {
		if data, err := os.ReadFile(file); err != nil || strings.Contains(string(data), "s3cret") {
			t.Errorf("%s: %v, or it holds the password", file, err)
		}
	}
}

func TestAVerificationReadsTheHostAgain(t *testing.T) {
	s := newSite(t, "verify")
	s.start()
	until(t, "the host is reported", func() bool { return s.nodeUpgrade().Status.Host != nil })
	s.host.write("sys/module/enflame/version", "2.0\n")
	s.host.remove("dev/gcu1")
	s.ask("op", 3, nil, "driver_verify", "runtime_verify")
	for _, task := range []string{"driver_verify", "runtime_verify"} {
		if r := s.untilAnswered("op", task, 3); r.State != topsv1.HostTaskDone || r.Reason != "Read" {
			t.Errorf("%s: %+v", task, r)
		}
	}
	if host := s.nodeUpgrade().Status.Host; host.DriverVersion != "2.0" || *host.Devices != 1 {
		t.Errorf("report %+v, want what the host shows now", host)
	}
	// Requested as long as the operator is not satisfied.
	s.host.write("dev/gcu1", "")
	until(t, "a card that comes later is shown", func() bool { return *s.nodeUpgrade().Status.Host.Devices == 2 })
}

func TestTheRuntimeIsRestarted(t *testing.T) {
	s := newSite(t, "runtime")
	s.start()
	s.host.configure("enflame")
	s.ask("op-1", 1, nil, "node_restart-runtime")
	if r := s.untilAnswered("op-1", "node_restart-runtime", 1); r.State != topsv1.HostTaskDone || r.Reason != "Restarted" {
		t.Errorf("result %+v", r)
	}
	if got := s.nodeUpgrade().Status.Host.Runtime.Default; got != "enflame" {
		t.Errorf("the default runtime is shown as %q", got)
	}
	s.ask("op-2", 1, nil, "node_restart-runtime")
	if r := s.untilAnswered("op-2", "node_restart-runtime", 1); r.State != topsv1.HostTaskDone || r.Reason != "AlreadyDefault" {
		t.Errorf("result of the next operation %+v", r)
	}
	if got := s.host.restarts(); got != 1 {
		t.Errorf("%d restarts, want 1", got)
	}
}

func TestARestartIsLeftToTheAdministrator(t *testing.T) {
	s := newSite(t, "administrator")
	s.change = func(o *Options) { o.RestartAllowed = false }
	s.start()
	s.host.configure("enflame")
	s.ask("op", 1, nil, "node_restart-runtime")
	r := s.untilAnswered("op", "node_restart-runtime", 1)
	if r.State != topsv1.HostTaskWaiting || r.Reason != "LeftToAdministrator" || !strings.Contains(r.Message, "systemctl restart docker") {
		t.Errorf("result %+v", r)
	}
	if got := s.host.restarts(); got != 0 {
		t.Fatalf("%d restarts", got)
	}
	if err := errors.Join(s.host.stopDocker(), s.host.startDocker()); err != nil {
		t.Fatal(err)
	}
	until(t, "the agent sees what the administrator did", func() bool {
		return s.result("op", "node_restart-runtime").State == topsv1.HostTaskDone
	})
}

func TestTasksOfAnOperationThatDoesNotRunAreIgnored(t *testing.T) {
	tasks := []string{"driver_prepull", "node_restart-runtime", "driver_verify"}
	for i, test := range []struct {
		name   string
		change func(*topsv1.NodeUpgrade)
	}{
		{"an operation that was aborted", func(n *topsv1.NodeUpgrade) { n.Spec.Operation.Abort = true }},
		{"an operation that gives the node back", func(n *topsv1.NodeUpgrade) { n.Status.Operation.Phase = topsv1.OperationReleasing }},
		{"an operation that failed", func(n *topsv1.NodeUpgrade) { n.Status.Operation.Phase = topsv1.OperationFailed }},
		{"an operation that is not wanted any more", func(n *topsv1.NodeUpgrade) { n.Spec.Operation.ID = "newer" }},
		{"an operation of another Node object", func(n *topsv1.NodeUpgrade) { n.Spec.Operation.NodeUID = "before" }},
		{"tasks that have not begun", func(n *topsv1.NodeUpgrade) {
			for i := range n.Status.Operation.Tasks {
				n.Status.Operation.Tasks[i].State = topsv1.OperationTaskPending
			}
		}},
		{"tasks of another node", func(n *topsv1.NodeUpgrade) {
			for i := range n.Status.Operation.Tasks {
				n.Status.Operation.Tasks[i].Name = "x" + n.Status.Operation.Tasks[i].Name
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(t, fmt.Sprint("idle-", i))
			s.host.configure("enflame")
			s.ask("op", 1, test.change, tasks...)
			stop := s.start()
			until(t, "the host is reported", func() bool { return s.nodeUpgrade().Status.Host != nil })
			stop() // waits for tasks begun before the report
			if files := s.journaled(); len(files) != 0 || s.host.restarts() != 0 || s.host.has("r.example/driver:2") {
				t.Errorf("it has done something: journal %q, %d restarts", files, s.host.restarts())
			}
		})
	}
}

func TestAPullEndsWithItsOperation(t *testing.T) {
	s := newSite(t, "abort")
	s.host.write("registry/hold", "")
	s.start()
	s.ask("op", 1, nil, "driver_prepull")
	until(t, "the pull is under way", func() bool { return s.result("op", "driver_prepull").State == topsv1.HostTaskRunning })
	s.ask("op", 1, func(n *topsv1.NodeUpgrade) { n.Spec.Operation.Abort = true }, "driver_prepull")
	if r := s.untilAnswered("op", "driver_prepull", 1); r.State != topsv1.HostTaskFailed || r.Reason != "Withdrawn" {
		t.Errorf("result %+v", r)
	}
}

func TestALinkThatIsCutInTheMiddle(t *testing.T) {
	s := newSite(t, "link")
	s.host.write("registry/hold", "")
	s.start()
	tasks := []string{"driver_prepull", "driver_verify"}
	s.ask("op", 1, func(n *topsv1.NodeUpgrade) { n.Status.Operation.Tasks[1].State = topsv1.OperationTaskPending }, tasks...)
	until(t, "the pull is under way", func() bool { return s.result("op", "driver_prepull").State == topsv1.HostTaskRunning })

	s.link.set(true)
	s.ask("op", 1, nil, tasks...) // unreadable for the agent
	s.host.remove("registry/hold")
	until(t, "the pull goes on to its end", func() bool { return s.host.has("r.example/driver:2") })
	if r := s.result("op", "driver_prepull"); r.State != topsv1.HostTaskRunning {
		t.Errorf("result %+v was shown without a link", r)
	}
	s.link.set(false)
	if r := s.untilAnswered("op", "driver_prepull", 1); r.State != topsv1.HostTaskDone || r.Reason != "Pulled" {
		t.Errorf("result %+v", r)
	}
	if r := s.untilAnswered("op", "driver_verify", 1); r.State != topsv1.HostTaskDone {
		t.Errorf("what was asked for in between: %+v", r)
	}
}

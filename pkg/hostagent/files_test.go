package hostagent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/topsops/gcu-operator/pkg/distribution"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// fakeHost returns a host root with files.
func fakeHost(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestHostFacts(t *testing.T) {
	full := map[string]string{
		"sys/module/enflame/version":     "1.4.2\n",
		"proc/sys/kernel/random/boot_id": "b-1\n",
		"dev/gcu0":                       "", "dev/gcu1": "", "dev/gcu10": "", "dev/gcuctl": "", "dev/vgcu0": "", "dev/gcu": "", "dev/gcu1x": "",
		"dev/gcu7/a-directory-is-no-card": "",
	}
	cards := 3
	got := readHostFacts(fakeHost(t, full))
	if diff := cmp.Diff(task.HostFacts{DriverVersion: "1.4.2", Devices: &cards, BootID: "b-1"}, got); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	got = readHostFacts(fakeHost(t, map[string]string{"sys/module/enflame/version": " \n"}))
	if diff := cmp.Diff(task.HostFacts{}, got, cmpopts.IgnoreFields(task.HostFacts{}, "Missing")); diff != "" || len(got.Missing) != 3 {
		t.Errorf("of an empty host: missing %q; facts (-want +got):\n%s", got.Missing, diff)
	}
	got = readHostFacts(filepath.Join(t.TempDir(), "nowhere"))
	if len(got.Missing) != 1 || !strings.Contains(got.Missing[0], "no such file") {
		t.Errorf("facts of a host root that is not there: %+v", got)
	}
}

func TestFreeDisk(t *testing.T) {
	root := fakeHost(t, map[string]string{"var/lib/docker/x": ""})
	if got, err := freeDisk(root, "/var/lib/docker"); err != nil || got <= 0 {
		t.Errorf("%d bytes, %v", got, err)
	}
	outside := filepath.Join(root, "var/lib/elsewhere")
	if err := os.Symlink(t.TempDir(), outside); err != nil {
		t.Fatal(err)
	}
	for _, directory := range []string{"", "/var/lib/containerd", "/var/lib/elsewhere"} {
		if got, err := freeDisk(root, directory); err == nil {
			t.Errorf("%d bytes of %q", got, directory)
		}
	}
}

func TestALinkDoesNotLeaveTheHost(t *testing.T) {
	root := fakeHost(t, map[string]string{"sys/module/enflame/x": "", "dev/x": ""})
	outside := filepath.Join(t.TempDir(), "version")
	if err := os.WriteFile(outside, []byte("9.9"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(root, driverVersionFile)); err != nil {
		t.Fatal(err)
	}
	if got := readHostFacts(root); got.DriverVersion != "" {
		t.Errorf("read %q of a file that is not of the host", got.DriverVersion)
	}
}

func TestConfiguredDefault(t *testing.T) {
	v2 := func(runtime string) string {
		return "[plugins.\"io.containerd.grpc.v1.cri\".containerd]\n  default_runtime_name = \"" + runtime + "\"\n"
	}
	v3 := strings.Replace(v2("enflame"), "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime", 1)
	const rke2, k3s, microk8s = "var/lib/rancher/rke2/agent/etc/containerd/", "var/lib/rancher/k3s/agent/etc/containerd/", "var/snap/microk8s/current/args/"
	const ranchers, snaps = "run/k3s/containerd/containerd.sock", "var/snap/microk8s/common/run/containerd.sock"
	tests := map[string]struct {
		engine task.Engine
		files  map[string]string
		want   string
		broken bool
	}{
		"k3s before the toolkit, beside docker": {engine: task.Containerd, files: map[string]string{
			ranchers: "", k3s + "config.toml": "version = 3\n", "etc/containerd/config.toml": v2("nvidia"), "run/containerd/containerd.sock": "",
		}},
		"a drop-in of k3s": {engine: task.Containerd, files: map[string]string{
			ranchers: "", k3s + "config.toml": "imports = [\"/" + k3s + "config-v3.toml.d/*.toml\"]\n", k3s + "config-v3.toml.d/enflame.toml": v3,
		}, want: "enflame"},
		"a template of RKE2 that it has not used yet": {engine: task.Containerd, files: map[string]string{
			ranchers: "", rke2 + "config.toml": v2("nvidia"),
			rke2 + "config.toml.tmpl": "{{ template \"base\" . }}\n# default_runtime_name = \"no\"\n  default_runtime_name = \"enflame\"\n",
		}, want: "enflame"},
		"of two templates of k3s the one of its version": {engine: task.Containerd, files: map[string]string{
			ranchers: "", k3s + "config.toml": "", k3s + "config-v3.toml.tmpl": v3, k3s + "config.toml.tmpl": v2("nvidia"),
		}, want: "enflame"},
		"a drop-in of k3s overrides a template": {engine: task.Containerd, files: map[string]string{
			ranchers: "", k3s + "config.toml": "imports = [\"/" + k3s + "config-v3.toml.d/*.toml\"]\n", k3s + "config-v3.toml.d/enflame.toml": v3, k3s + "config-v3.toml.tmpl": v2("nvidia"),
		}, want: "enflame"},
		"MicroK8s with its own template": {engine: task.Containerd, files: map[string]string{
			snaps: "", microk8s + "containerd.toml": v2("runc"), microk8s + "containerd-template.toml": v2("${RUNTIME}"),
		}, want: "runc"},
		"MicroK8s with a template of the toolkit": {engine: task.Containerd, files: map[string]string{
			snaps: "", microk8s + "containerd.toml": v2("runc"), microk8s + "containerd-template.toml": v2("enflame"),
		}, want: "enflame"},
		"what k3s has left behind counts no more after a boot": {engine: task.Containerd, files: map[string]string{
			k3s + "config.toml": v2("nvidia"), "etc/containerd/config.toml": v2("enflame"),
		}, want: "enflame"},
		"docker without a file":       {engine: task.Docker},
		"docker with an empty file":   {engine: task.Docker, files: map[string]string{"etc/docker/daemon.json": " "}},
		"docker names one":            {engine: task.Docker, files: map[string]string{"etc/docker/daemon.json": `{"default-runtime":"enflame","x":1}`}, want: "enflame"},
		"docker names none":           {engine: task.Docker, files: map[string]string{"etc/docker/daemon.json": `{"live-restore":true}`}},
		"docker with a torn file":     {engine: task.Docker, files: map[string]string{"etc/docker/daemon.json": `{"default`}, broken: true},
		"containerd without a file":   {engine: task.Containerd},
		"containerd of version 2":     {engine: task.Containerd, files: map[string]string{"etc/containerd/config.toml": v2("enflame")}, want: "enflame"},
		"containerd of version 3":     {engine: task.Containerd, files: map[string]string{"etc/containerd/config.toml": v3}, want: "enflame"},
		"containerd with a torn file": {engine: task.Containerd, files: map[string]string{"etc/containerd/config.toml": "[plugins"}, broken: true},
		"a drop-in of containerd overrides": {engine: task.Containerd, files: map[string]string{
			"etc/containerd/config.toml": "imports = [\"/etc/containerd/more/*.toml\"]\n" + v2("runc"),
			"etc/containerd/more/a.toml": v2("nvidia"), "etc/containerd/more/b.toml": v2("enflame"),
		}, want: "enflame"},
		"a drop-in beside the file, imported by default": {engine: task.Containerd, files: map[string]string{
			"etc/containerd/config.toml": v2("runc"), "etc/containerd/conf.d/99-enflame.toml": v2("enflame"),
		}, want: "enflame"},
		"files that import each other": {engine: task.Containerd, files: map[string]string{
			"etc/containerd/config.toml": "imports = [\"a.toml\"]\n", "etc/containerd/a.toml": "imports = [\"config.toml\"]\n" + v2("enflame"),
		}, want: "enflame"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := host{root: fakeHost(t, test.files), paths: Paths{}.withDefaults()}
			got, named, err := h.configuredDefault(test.engine)
			if got != test.want || named != (test.want != "") || (err != nil) != test.broken {
				t.Errorf("configured %q, named=%t, %v; want %q, broken=%t", got, named, err, test.want, test.broken)
			}
		})
	}
}

func TestInstanceOfAProcess(t *testing.T) {
	stat := func(name, start string) string {
		return "7 (" + name + ") S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 9 0 " + start + " 1 2"
	}
	for name, test := range map[string]struct{ stat, want string }{
		"a plain name":                        {stat("dockerd", "4711"), "b-1/7/4711"},
		"a name that looks like other fields": {stat("a) R 1 (b", "4711"), "b-1/7/4711"},
		"another start is another instance":   {stat("dockerd", "4712"), "b-1/7/4712"},
		"a torn line":                         {"7 (dockerd) S 1", ""},
		"no line":                             {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := fakeHost(t, map[string]string{"sys/kernel/random/boot_id": "b-1\n", "7/stat": test.stat})
			got, err := processes{proc: root}.instance(7)
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("instance = %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestWhenAnInstanceBegan(t *testing.T) {
	for _, test := range []struct {
		name, stat, instance string
		want                 int64
		broken               bool
	}{
		{"seconds after the boot", "cpu  1 2\nbtime 1700000000\nprocesses 7\n", "b-1/7/4799", 1700000047, false},
		{"no process runs", "", "", 0, false},
		{"nobody says when the node was booted", "cpu  1 2\n", "b-1/7/4799", 0, true},
		{"another kind of instance", "btime 1700000000\n", "b-1/7/x", 0, true},
	} {
		got, err := processes{proc: fakeHost(t, map[string]string{"stat": test.stat})}.began(test.instance)
		if (err != nil) != test.broken || got.IsZero() != (test.want == 0) || test.want != 0 && got.Unix() != test.want {
			t.Errorf("%s: %s, %v", test.name, got, err)
		}
	}
}

func TestDefaultRuntimeReportedByContainerd(t *testing.T) {
	if got, err := defaultRuntimeOf(`{"containerd":{"defaultRuntimeName":"enflame","runtimes":{}}}`); got != "enflame" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	for _, config := range []string{"", "{}", "null", `{"containerd":{"defaultRuntimeName":""}}`, "["} {
		if got, err := defaultRuntimeOf(config); err == nil {
			t.Errorf("of %q: %q, want an error: missing evidence is no evidence", config, got)
		}
	}
}

func TestCardsAreCountedInAnyFileSystem(t *testing.T) {
	if got := hostFactsOf(fstest.MapFS{"dev/gcu0": {}, "dev/gcu1": {}}); got.Devices == nil || *got.Devices != 2 {
		t.Errorf("cards of %+v", got)
	}
}

func TestTheContainerdOfTheHost(t *testing.T) {
	packaged := distribution.Packaged()
	const ranchers = "run/k3s/containerd/containerd.sock"
	for name, test := range map[string]struct {
		files []string
		paths Paths
		units map[task.Engine]string
		want  distribution.Containerd
	}{
		"of packages": {nil, Paths{}, nil, packaged},
		"k3s": {[]string{ranchers, "var/lib/rancher/k3s/agent/etc/containerd/config.toml"}, Paths{}, nil,
			distribution.Containerd{Socket: ranchers, Config: "var/lib/rancher/k3s/agent/etc/containerd/config.toml", Units: []string{"k3s.service", "k3s-agent.service"}}},
		"RKE2 while its containerd restarts": {[]string{"run/k3s/containerd/x", "var/lib/rancher/rke2/agent/etc/containerd/config.toml"}, Paths{}, nil,
			distribution.Containerd{Socket: ranchers, Config: "var/lib/rancher/rke2/agent/etc/containerd/config.toml", Units: []string{"rke2-server.service", "rke2-agent.service"}}},
		"MicroK8s": {[]string{"var/snap/microk8s/common/run/containerd.sock", "var/snap/microk8s/current/args/containerd.toml"}, Paths{}, nil,
			distribution.Containerd{Socket: "var/snap/microk8s/common/run/containerd.sock", Config: "var/snap/microk8s/current/args/containerd.toml", Units: []string{"snap.microk8s.daemon-containerd.service"}}},
		"k3s beside the one that the kubelet uses": {[]string{ranchers, "var/lib/rancher/k3s/agent/etc/containerd/config.toml"}, Paths{ContainerdSocket: packaged.Socket}, nil, packaged},
		"another, as the flags say": {nil, Paths{ContainerdSocket: "run/k0s/containerd.sock", ContainerdConfig: "etc/k0s/containerd.toml"}, map[task.Engine]string{task.Containerd: "k0sworker.service"},
			distribution.Containerd{Socket: "run/k0s/containerd.sock", Config: "etc/k0s/containerd.toml", Units: []string{"k0sworker.service"}}},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{}
			for _, file := range test.files {
				files[file] = ""
			}
			h := host{root: fakeHost(t, files), paths: test.paths.withDefaults(), units: test.units}
			got := h.containerd()
			got.Units, got.Templates, got.DropIns = h.unitsOf(task.Containerd), nil, nil
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("containerd (-want +got):\n%s", diff)
			}
		})
	}
}

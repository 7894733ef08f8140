package realnode

import (
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/topsops/gcu-operator/test/need"
)

func TestValidate(t *testing.T) {
	for name, test := range map[string]struct {
		spec Spec
		want string
	}{
		"none are fine":           {Spec{}, ""},
		"the most is fine":        {Spec{Count: MaxCount, DockerNode: "real-32"}, ""},
		"less than none":          {Spec{Count: -1}, "--real-nodes must be from 0 to 32, not -1"},
		"too many":                {Spec{Count: MaxCount + 1}, "--real-nodes must be"},
		"docker on another node":  {Spec{Count: 2, DockerNode: "real-3"}, "--docker-node must be a real node"},
		"docker on a simulated":   {Spec{Count: 2, DockerNode: "node-0001"}, "--docker-node must be a real node"},
		"docker without any node": {Spec{DockerNode: "real-1"}, "--docker-node must be a real node"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := test.spec.Validate(); err != nil {
				got = err.Error()
			}
			if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
				t.Errorf("got error %q, want %q", got, test.want)
			}
		})
	}
}

func TestAddressesAreUniqueAcrossClusters(t *testing.T) {
	simulatedPods := netip.MustParsePrefix("10.128.0.0/10")
	var taken []netip.Prefix
	for number := firstNumber; number <= lastNumber; number++ {
		n := Nodes{Spec: Spec{Count: MaxCount}, Number: number}
		if services := n.ServiceRange(); services.Masked().Addr().Next() != n.APIAddress() {
			t.Fatalf("the API server has %s, want the first address of %s", n.APIAddress(), services)
		}
		mine := []netip.Prefix{simulatedPods, n.ServiceRange(), netip.PrefixFrom(n.gateway(), 32)}
		for i := 1; i <= n.Count; i++ {
			mine = append(mine, n.podRange(i), netip.PrefixFrom(n.nodeAddress(i), 32))
		}
		for i, one := range mine {
			if overlaps(mine[i+1:], one) || overlaps(taken, one) {
				t.Fatalf("%s of cluster %d is used twice", one, number)
			}
		}
		taken = append(taken, netip.PrefixFrom(n.address(0, 0), 16))
	}
}

func TestInterfaceNamesAreShortEnough(t *testing.T) {
	const longest = 15 // IFNAMSIZ without the end
	n := Nodes{Spec: Spec{Count: MaxCount}, Number: lastNumber}
	if link := n.link(MaxCount); len(link) > longest {
		t.Errorf("%s is longer than %d", link, longest)
	}
}

// installed installs two nodes in a temporary folder.
func installed(t *testing.T) Nodes {
	t.Helper()
	dir := t.TempDir()
	given := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	n := Nodes{Spec: Spec{Count: 2, DockerNode: "real-2"}, Number: firstNumber, Disks: filepath.Join(dir, "nodes"), Logs: filepath.Join(dir, "logs")}
	err := n.Install(Software{
		Kubelet: given("kubelet"), PauseImage: given("pause.tar"), CA: given("ca.crt"),
		Kubeconfig: given, LeaseDuration: 40 * time.Second,
	})
	if err != nil {
		if os.Getuid() != 0 {
			need.Skip(t, "installing nodes needs root: "+err.Error())
		}
		t.Fatal(err)
	}
	return n
}

func TestInstallGivesEachNodeItsOwnConfiguration(t *testing.T) {
	n := installed(t)
	for path, want := range map[string]string{
		"real-1/layer/etc/kubernetes/kubelet.kubeconfig": "real-1",
		"real-2/layer/etc/kubernetes/kubelet.kubeconfig": "real-2",
		"real-1/layer/etc/kubernetes/kubelet.yaml":       "nodeLeaseDurationSeconds: 40",
		"real-1/layer/etc/cni/net.d/10-pods.conflist":    `"10.192.1.0/24"`,
		"real-2/layer/etc/cni/net.d/10-pods.conflist":    `"10.192.2.0/24"`,
		"real-2/layer/etc/sv.node/kubelet/run":           "--node-ip 10.192.0.12",
		"real-2/layer/etc/containerd/config.toml":        `sandbox_image = "` + PauseTag + `"`,
		"real-2/layer/etc/init.d/docker":                 "/usr/bin/sv",
		"real-2/layer/etc/sv.node/docker/run":            "dockerd",
		"real-1/config.json":                             `"/run/netns/tc192-real-1"`,
		"real-2/config.json":                             `"lowerdir=/etc"`,
		"../logs/real-1":                                 "",
		"real-1/layer/etc/sv.node/docker":                "not there",
		"real-1/layer/etc/init.d/docker":                 "not there",
		"real-1/root/var/lib":                            "",
	} {
		data, err := os.ReadFile(filepath.Join(n.Disks, path))
		switch {
		case want == "not there":
			if !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is there (%v)", path, err)
			}
		case want == "":
			if _, err := os.Stat(filepath.Join(n.Disks, path)); err != nil {
				t.Error(err)
			}
		case err != nil || !strings.Contains(string(data), want):
			t.Errorf("%s holds %q (%v), want %q in it", path, data, err, want)
		}
	}
}

func TestBundleRequestsOnlyCapabilitiesThatWeHave(t *testing.T) {
	have, err := capabilities()
	if err != nil {
		t.Fatal(err)
	}
	n := len(have.Effective)
	if os.Getuid() == 0 && !slices.Contains(have.Effective, "CAP_SYS_ADMIN") {
		t.Errorf("got %d capabilities without the one to mount: %v", n, have.Effective)
	}
	text, err := json.Marshal(have)
	if err != nil || strings.Count(string(text), "CAP_") != 3*n {
		t.Errorf("got %s (%v), want the same %d in three sets", text, err, n)
	}
}

//go:build install

package chart

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/topsops/gcu-operator/test/harness"
	"github.com/topsops/gcu-operator/test/install"
)

const (
	// desk is the node on which a person types the commands: it has docker, and registries run on it.
	desk = "real-3"
	// outside is the registry of the images, mirror the one that nodes reach, as docs/install.md names it.
	outside, mirror = "artifact.enflame.cn", "mirror.example.com"
	// work is the folder on the desk in which the commands run.
	work = "/root/work"
)

// nodes are all nodes. All but the desk have GCUs.
var nodes = []string{"real-1", "real-2", desk}

// guide is the section "Without a network" of docs/install.md: its commands, and the one for a node in its text.
type guide struct{ save, push, install, load string }

// TestWithoutANetwork runs the commands of docs/install.md on nodes that have no images and reach nothing but the API server and each
// other, and then a mirror too: what else they, or their pods, send is rejected and counted, and nothing is. The registries are docker's, of
// Debian. The archive comes first: a kubelet that has pulled an image does not take it under another name for one that was loaded.
func TestWithoutANetwork(t *testing.T) {
	log.SetLogger(logr.Discard())
	check(t, install.Programs(t.Context(), "docker-registry"))
	s := startIsolated(t)
	g := s.readGuide()
	s.atDesk(g.save)
	archive := s.on(desk, nil, "cat", work+"/images.tar")
	s.leaveNetwork()

	t.Run("with an archive", func(t *testing.T) {
		s := s.in(t)
		for _, node := range nodes {
			s.on(node, strings.NewReader(archive), "sh", "-ec", "cat >images.tar && "+g.load)
		}
		s.deploys(strings.Replace(g.install, "global.registry="+mirror+",", "", 1), outside+"/")
	})
	for _, node := range nodes {
		s.on(node, nil, "sh", "-ec", "ctr -n k8s.io images ls -q | grep -v pause | xargs ctr -n k8s.io images rm")
	}
	t.Run("with a mirror", func(t *testing.T) {
		s := s.in(t)
		s.serveMirror()
		s.atDesk(g.push)
		s.deploys(g.install, mirror+"/")
	})
}

// startIsolated starts a cluster without images, in which only the desk reaches the registry of the images.
func startIsolated(t *testing.T) *site {
	t.Helper()
	project, err := harness.FindProject()
	check(t, err)
	dir, err := os.MkdirTemp("", "gcu-airgap-")
	check(t, err)
	cluster, err := harness.StartCluster(t.Context(), project, filepath.Join(dir, "cluster"), os.Stderr, "--real-nodes", "3", "--docker-node", desk)
	check(t, err)
	t.Cleanup(func() {
		check(t, cluster.Stop(os.Stderr))
		check(t, os.RemoveAll(dir))
	})
	s := &site{Cluster: cluster, t: t, ctx: t.Context(), helm: project.Path("bin", "helm4")}
	s.kubectl("label", "node", desk, "feature.node.kubernetes.io/pci-1200_1e36.present-")
	s.installDrivers()
	s.setDesk()
	return s
}

// in returns the site for a part of the test.
func (s *site) in(t *testing.T) *site {
	c := *s
	c.t, c.ctx = t, t.Context()
	return &c
}

// on runs a program on a node, which must succeed, and returns its output.
func (s *site) on(node string, input io.Reader, argv ...string) string {
	s.t.Helper()
	output, err := s.OnNode(s.ctx, node, input, argv...)
	check(s.t, err)
	return output
}

// atDesk runs commands as a person does.
func (s *site) atDesk(commands string) {
	s.t.Helper()
	s.on(desk, nil, "sh", "-ec", "cd "+work+"\nPATH=.:$PATH\n"+commands)
}

// installDrivers installs a driver on the nodes with GCUs, as the default gr expects.
func (s *site) installDrivers() {
	s.t.Helper()
	program, err := os.ReadFile(s.Project.Path("bin", "images", "programs", "standin", "standin"))
	check(s.t, err)
	for _, node := range nodes[:2] {
		s.on(node, bytes.NewReader(program), "sh", "-ec", "cat >/usr/local/bin/standin && chmod +x /usr/local/bin/standin && standin install-driver")
		s.on(node, nil, "sh", "-ec", "mkdir -p /etc/kubernetes/node-feature-discovery/features.d && echo pci-1e36.present=true >/etc/kubernetes/node-feature-discovery/features.d/pci")
	}
}

// setDesk puts the programs and files of the guide onto the desk, and the images into the registry of which they come.
func (s *site) setDesk() {
	s.t.Helper()
	folder := s.t.TempDir()
	plugin := exec.CommandContext(s.ctx, "go", "build", "-o", filepath.Join(folder, "kubectl-gcu"), "./cmd/kubectl-gcu")
	plugin.Dir = s.Project.Root
	output, err := plugin.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v: %s", err, output)
	}
	kubectl := s.KubectlCommand(s.ctx).Path
	packed, err := exec.CommandContext(s.ctx, "tar", "-c", "-C", folder, "kubectl-gcu", "-C", filepath.Dir(kubectl), filepath.Base(kubectl), "-C", s.Project.Root, "examples", "config/airgap").Output()
	check(s.t, err)
	s.on(desk, bytes.NewReader(packed), "sh", "-ec", "mkdir -p "+work+" && tar -x -C "+work)
	s.serve("outside", "127.0.0.1:80", "")
	s.on(desk, nil, "sh", "-ec", "echo 127.0.0.1 "+outside+" >>/etc/hosts")
	for _, archive := range []string{"operator.tar", "standins.tar"} {
		file, err := os.Open(s.Project.Path("bin", "images", archive))
		check(s.t, err)
		s.on(desk, file, "docker", "load")
		check(s.t, file.Close())
	}
	s.atDesk("for image in $(kubectl gcu images -f examples/gcu-resource.json); do docker push -q $image; done; docker rmi -f $(docker images -q)")
}

// serveMirror starts the mirror, which all nodes trust.
func (s *site) serveMirror() {
	s.t.Helper()
	var node corev1.Node
	check(s.t, s.Client.Get(s.ctx, client.ObjectKey{Name: desk}, &node))
	address := node.Status.Addresses[slices.IndexFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })].Address
	certificate, key, err := cert.GenerateSelfSignedCertKey(mirror, nil, nil)
	check(s.t, err)
	s.on(desk, bytes.NewReader(certificate), "sh", "-ec", "cat >"+work+"/mirror.crt")
	s.on(desk, bytes.NewReader(key), "sh", "-ec", "cat >"+work+"/mirror.key")
	s.serve("mirror", address+":443", "  tls: {certificate: "+work+"/mirror.crt, key: "+work+"/mirror.key}\n")
	for _, name := range nodes {
		s.on(name, bytes.NewReader(certificate), "sh", "-ec",
			"cat >/etc/ssl/certs/mirror.pem && echo "+address+" "+mirror+" >>/etc/hosts && /etc/init.d/containerd restart")
	}
	s.on(desk, nil, "/etc/init.d/docker", "restart")
	s.eventually("docker answers", func() error {
		_, err := s.OnNode(s.ctx, desk, nil, "docker", "version")
		return err
	})
}

// serve starts a registry on the desk.
func (s *site) serve(name, address, more string) {
	s.t.Helper()
	config := fmt.Sprintf("version: 0.1\nstorage: {filesystem: {rootdirectory: /root/%s}}\nhttp:\n  addr: %s\n%s", name, address, more)
	scheme := "http://"
	if more != "" {
		scheme = "https://"
	}
	s.on(desk, strings.NewReader(config), "sh", "-ec", fmt.Sprintf("cat >/root/%[1]s.yml; setsid docker-registry serve /root/%[1]s.yml >/root/%[1]s.log 2>&1 </dev/null &", name))
	s.eventually("registry "+name+" answers", func() error {
		_, err := s.OnNode(s.ctx, desk, nil, "curl", "--silent", "--show-error", "--insecure", scheme+address+"/v2/")
		return err
	})
}

// leaveNetwork ends the registry of the images, leaves the archive alone on the desk, and closes the network of each node but for the
// addresses of the cluster: packets to others, from the node and from its pods, are rejected and counted.
func (s *site) leaveNetwork() {
	s.t.Helper()
	s.on(desk, nil, "sh", "-ec", "pkill -f '[o]utside.yml'; docker rmi -f $(docker images -q)")
	var inside []string
	var list corev1.NodeList
	check(s.t, s.Client.List(s.ctx, &list))
	for i := range list.Items {
		for _, a := range list.Items[i].Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				inside = append(inside, a.Address)
			}
		}
	}
	var slice discoveryv1.EndpointSlice
	check(s.t, s.Client.Get(s.ctx, client.ObjectKey{Namespace: "default", Name: "kubernetes"}, &slice))
	for i := range slice.Endpoints {
		inside = append(inside, slice.Endpoints[i].Addresses...)
	}
	rules := `iptables -N OUTSIDE
pods=$(ip route | awk '$1 != "default" && $2 == "via" { print $1 }')
for address in ` + strings.Join(inside, " ") + ` $pods; do iptables -A OUTSIDE -d $address -j RETURN; done
iptables -A OUTSIDE -j REJECT
iptables -I OUTPUT -o eth0 -j OUTSIDE
iptables -I FORWARD -o eth0 -j OUTSIDE`
	for _, node := range nodes {
		s.on(node, nil, "sh", "-ec", rules)
	}
	s.reachNothingElse(0)
	for _, node := range nodes {
		if output, err := s.OnNode(s.ctx, node, nil, "curl", "--silent", "--show-error", "--max-time", "5", "http://192.0.2.1/"); err == nil {
			s.t.Errorf("%s reaches 192.0.2.1: %s", node, output)
		}
	}
	s.reachNothingElse(1)
	for _, node := range nodes {
		s.on(node, nil, "iptables", "-Z", "OUTSIDE")
	}
}

// reachNothingElse fails unless so many packets of each node, and of its pods, were rejected.
func (s *site) reachNothingElse(want int) {
	s.t.Helper()
	for _, node := range nodes {
		counted := s.on(node, nil, "iptables", "-L", "OUTSIDE", "-v", "-n", "-x")
		rejected := regexp.MustCompile(`(?m)^ *(\d+) +\d+ +REJECT `).FindStringSubmatch(counted)
		if rejected == nil || rejected[1] != strconv.Itoa(want) {
			s.t.Errorf("%s: want %d rejected packets, got\n%s", node, want, counted)
		}
	}
}

// readGuide reads the commands from docs/install.md.
func (s *site) readGuide() guide {
	s.t.Helper()
	page, err := os.ReadFile(s.Project.Path("docs", "install.md"))
	check(s.t, err)
	_, section, _ := strings.Cut(string(page), "\n## Without a network\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1)
	load := regexp.MustCompile("`(ctr [^`]*)`").FindStringSubmatch(section)
	if len(blocks) != 2 || load == nil {
		s.t.Fatalf("the section has %d blocks, and %q to load an archive", len(blocks), load)
	}
	push, helm, found := strings.Cut(blocks[1][1], "\nhelm ")
	if !found {
		s.t.Fatalf("no helm in %q", blocks[1][1])
	}
	return guide{save: blocks[0][1], push: push, install: "helm " + strings.TrimSpace(helm), load: load[1]}
}

// deploys runs a command that installs the operator and its gr, and removes them once all runs with images of a registry.
func (s *site) deploys(command, registry string) {
	s.t.Helper()
	begin := time.Now()
	s.run(strings.Fields(command)[1:]...)
	s.kubectl("patch", "daemonset", "gcu-node-agent", "--namespace=kube-system", "--patch-file=test/nodes/testdata/agent-without-systemd.yaml")
	s.eventually("the gr shows 5/5 Running", func() error { return s.shows("5/5") })
	var pods corev1.PodList
	check(s.t, s.Client.List(s.ctx, &pods, client.InNamespace("kube-system")))
	for i := range pods.Items {
		for _, c := range pods.Items[i].Spec.Containers {
			if !strings.HasPrefix(c.Image, registry) {
				s.t.Errorf("pod %s has image %s", pods.Items[i].Name, c.Image)
			}
		}
	}
	s.reachNothingElse(0)
	s.t.Logf("%6.1fs until 5/5 Running, with %d pods", time.Since(begin).Seconds(), len(pods.Items))
	s.run("uninstall", "gcu-operator")
	s.eventually("all pods are gone", func() error {
		var pods corev1.PodList
		if err := s.Client.List(s.ctx, &pods); err != nil || len(pods.Items) == 0 {
			return err
		}
		return errors.New("pods are left")
	})
}

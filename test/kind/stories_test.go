//go:build kind

package kind

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

const (
	older, newer = "nginx:1.19.4", "nginx:1.19.5"

	grName      = "enflame-gcu-resource"
	nameLabel   = "app.kubernetes.io/name"
	exporterSet = "enflame-gcu-exporter"
	present     = "enflame.com/gcu.present"
)

// everywhere returns an image for each node, another one for those given.
func (s *stage) everywhere(image, other string, others ...string) map[string]string {
	images := map[string]string{}
	for _, node := range s.nodes {
		images[node] = image
	}
	for _, node := range others {
		images[node] = other
	}
	return images
}

// nginx deploys an example, and returns what checks its pods. The example goes at the end of the story.
func (s *stage) nginx(example string) func(what string, images map[string]string) {
	s.t.Helper()
	s.kubectl("apply", "-f", example)
	s.t.Cleanup(func() { s.kubectl("delete", "-f", example, "--wait=true") })
	run := func(what string, images map[string]string) {
		s.t.Helper()
		s.eventually(what, func() error { return s.runOn("default", "app", "nginx", images) })
	}
	run("nginx runs on all nodes", s.everywhere(older, ""))
	return run
}

// rolling is the first example of OpenYurt's document.
func (s *stage) rolling() {
	run := s.nginx("examples/openyurt/nginx-rolling.yaml")
	reconnect := s.disconnect()
	s.kubectl("set", "image", "daemonset/nginx-daemonset", "nginx="+newer)
	run("all other nodes are upgraded", s.everywhere(newer, older, s.away))
	reconnect()
	run("the node is upgraded when it returns", s.everywhere(newer, ""))
}

// disconnect takes a node offline, and returns what brings it back. A story that fails before, or is interrupted, brings
// it back at its end: only then, because docker does not connect a node that is connected.
func (s *stage) disconnect() (reconnect func()) {
	s.t.Helper()
	off := true
	on := func(ctx context.Context) {
		s.t.Helper()
		_, err := s.NodesOn(ctx, s.away)
		check(s.t, err)
		off = false
	}
	s.t.Cleanup(func() {
		if off {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), patience)
			defer cancel()
			on(ctx)
		}
	})
	_, err := s.NodesOff(s.ctx, s.away)
	check(s.t, err)
	return func() { s.t.Helper(); on(s.ctx) }
}

// ota is the second example, which needs a node agent on the node: those run where cards are.
func (s *stage) ota() {
	node := s.away
	s.kubectl("label", "node", node, present+"=true")
	s.t.Cleanup(func() { s.kubectl("label", "node", node, present+"-") })
	run := s.nginx("examples/openyurt/nginx-ota.yaml")
	s.needsUpgrade(false)
	s.kubectl("set", "image", "daemonset/nginx-daemonset", "nginx="+newer)
	s.needsUpgrade(true)
	s.kubectl("rollout", "status", "daemonset/gcu-node-agent", "--namespace="+system, "--timeout=5m")
	var name string
	for _, pod := range s.podsOf("default", "app", "nginx") {
		if pod.Spec.NodeName == node {
			name = pod.Name
		}
	}
	answer := s.onNode(node, "curl", "--silent", "-X", "POST", "127.0.0.1:10267/openyurt.io/v1/namespaces/default/pods/"+name+"/upgrade")
	if want := "Start updating pod default/" + name; strings.TrimSpace(answer) != want {
		s.t.Errorf("the node answers %q, want %q", answer, want)
	}
	run("only this node is upgraded", s.everywhere(older, newer, node))
}

// needsUpgrade waits until condition PodNeedUpgrade of all pods of nginx says so.
func (s *stage) needsUpgrade(want bool) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("%s is %t", topsv1.PodNeedUpgrade, want), func() error {
		for _, pod := range s.podsOf("default", "app", "nginx") {
			if has(&pod, topsv1.PodNeedUpgrade) != want {
				return fmt.Errorf("that of pod %s is not", pod.Name)
			}
		}
		return nil
	})
}

// resource deploys the default gr on nodes with simulated cards and a driver.
func (s *stage) resource() {
	for _, node := range s.nodes {
		s.giveCards(node)
	}
	s.kubectl("apply", "-f", "examples/gcu-resource.yaml")
	s.t.Cleanup(func() { s.kubectl("delete", "gr", grName, "--ignore-not-found", "--wait=true") }) // also when the story fails
	s.kubectl("annotate", "gr", grName, topsv1.AnnotationUpdateStrategy+"=AdvancedRollingUpdate", topsv1.AnnotationMaxUnavailable+"=100%")
	s.kubectl("wait", "gr/"+grName, "--for=jsonpath={.status.readyResource}=5/5", "--timeout=10m")
	s.kubectl("wait", "dro/"+grName, "--namespace="+system, "--for=condition=Complete", "--timeout=10m") // a node that goes offline in an operation keeps its slot
	s.kubectl("annotate", "--overwrite", "gr", grName, topsv1.AnnotationMaxUnavailable+"=1")
	image := s.podsOf(system, nameLabel, exporterSet)[0].Spec.Containers[0].Image
	next := strings.TrimSuffix(image, "latest") + "2.0.0"

	reconnect := s.disconnect()
	s.kubectl("patch", "gr", grName, "--type=merge", `--patch={"spec":{"exporter":{"version":"2.0.0"}}}`)
	upgraded := func(what string, images map[string]string) {
		s.t.Helper()
		s.eventually(what, func() error { return s.runOn(system, nameLabel, exporterSet, images) })
	}
	upgraded("the exporters of all other nodes are upgraded", s.everywhere(next, image, s.away))
	reconnect()
	upgraded("the exporter of the node is upgraded when it returns", s.everywhere(next, ""))

	s.kubectl("delete", "gr", grName, "--wait=true")
	var pods []corev1.Pod
	s.eventually("no component is left", func() error {
		if pods = s.podsOf(system, nameLabel, exporterSet); len(pods) > 0 {
			return fmt.Errorf("pod %s is", pods[0].Name)
		}
		return nil
	})
}

// writableModules makes room for a simulated module where /sys is the kernel's.
const writableModules = `mkdir -p /sys/module/enflame 2>/dev/null || {
	mkdir -p /run/gcu-modules && mount -t tmpfs tmpfs /run/gcu-modules && mkdir /run/gcu-modules/upper /run/gcu-modules/work &&
	mount -t overlay overlay -o lowerdir=/sys/module,upperdir=/run/gcu-modules/upper,workdir=/run/gcu-modules/work /sys/module
}`

// giveCards gives a node a driver and what node-feature-discovery finds.
func (s *stage) giveCards(node string) {
	s.t.Helper()
	program, err := os.ReadFile(s.Project.Path("bin", "images", "programs", "standin", "standin"))
	check(s.t, err)
	_, err = s.OnNode(s.ctx, node, bytes.NewReader(program), "sh", "-c", "cat >/usr/local/bin/standin && chmod +x /usr/local/bin/standin")
	check(s.t, err)
	s.onNode(node, "sh", "-c", writableModules)
	s.onNode(node, "/usr/local/bin/standin", "install-driver")
	const features = "/etc/kubernetes/node-feature-discovery/features.d"
	s.onNode(node, "sh", "-c", "mkdir -p "+features+" && echo pci-1e36.present=true >"+features+"/pci")
}

package nodes

import (
	"fmt"
	"strings"

	"github.com/topsops/gcu-operator/pkg/ota/proof"
)

const (
	// agentPort is where the node agent listens, unless another process does.
	agentPort = "127.0.0.1:10267"
	// impostorSaw is the file on a node with what the impostor there has read.
	impostorSaw = "/run/impostor.log"
	// impostor listens on the agent's port, as a user without rights, and keeps what it reads.
	impostor = `use IO::Handle; use IO::Socket::INET;
open(my $saw, ">>", "` + impostorSaw + `") or die $!;
$saw->autoflush(1);
$( = $) = 65534; $< = $> = 65534;
my $port = IO::Socket::INET->new(LocalAddr => "` + agentPort + `", Listen => 8, ReuseAddr => 1) or die $@;
while (my $caller = $port->accept) {
  while (my $line = <$caller>) { print $saw $line; last if $line =~ /^\r?\n$/ }
  print $caller "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
  close $caller;
}`
)

// occupyAgentPort starts an impostor on a node, and returns its process.
func (s *stage) occupyAgentPort(node string) (pid string) {
	s.t.Helper()
	_, err := s.OnNode(s.ctx, node, strings.NewReader(impostor), "tee", "/run/impostor.pl")
	check(s.t, err)
	pid = strings.TrimSpace(s.on(node, "sh", "-c", "perl /run/impostor.pl </dev/null >/run/impostor.out 2>&1 & echo $!"))
	s.eventually("another process has the port of the agent", func() error {
		_, err := s.OnNode(s.ctx, node, nil, "curl", "--silent", "http://"+agentPort)
		return err
	})
	return pid
}

// servesBesideImpostor checks that the agent of a node runs though an impostor had its port first: it has
// neither failed nor missed a probe of the kubelet, its socket serves and names the port, and its client
// does not show the impostor the token. When the impostor ends, the agent takes the port.
func (s *stage) servesBesideImpostor(node, pid string) {
	s.t.Helper()
	pod := s.podOn(agentSet, node)
	if pod == nil || !ready(pod) {
		s.t.Fatalf("the agent of %s is %+v", node, pod)
	}
	// After a restart of containerd a kubelet may take a running pod for dead, and starts it again.
	if end := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated; end != nil && end.ExitCode != 0 {
		s.t.Errorf("the agent of %s failed: %+v", node, end)
	}
	killed := s.kubectl("get", "events", "--namespace="+system, "--field-selector=reason=Killing,involvedObject.name="+pod.Name, "--output=jsonpath={.items[*].message}")
	if strings.Contains(killed, "failed liveness probe") {
		s.t.Errorf("the kubelet of %s says of the agent: %s", node, killed)
	}
	status := []string{"exec", "--namespace=" + system, pod.Name, "--", "node-agent", "ota", "status"}
	const told = "Another process listens on " + agentPort
	if output := s.kubectl(status...); !strings.Contains(output, told) {
		s.t.Errorf("the agent says\n%s", output)
	}
	output, err := s.Kubectl(s.ctx, append(status, "--address=http://"+agentPort, "--token-file=/var/lib/gcu-node-agent/ota-token")...)
	if err == nil || !strings.Contains(fmt.Sprint(output, err), "is not the node agent") {
		s.t.Errorf("the client says of the impostor: %s%v", output, err)
	}
	saw := strings.ToLower(s.on(node, "cat", impostorSaw))
	if !strings.Contains(saw, strings.ToLower(proof.ChallengeHeader)) || strings.Contains(saw, "authorization") {
		s.t.Errorf("the impostor read %q, want a challenge and no token", saw)
	}
	s.on(node, "kill", pid)
	s.eventually("the agent takes its port", func() error {
		if output := s.kubectl(status...); strings.Contains(output, told) {
			return fmt.Errorf("it says\n%s", output)
		}
		return nil
	})
}

package nodes

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// journalFolder is the folder of the node agent's journals, and ballast the file that
// fills its disk.
const (
	journalFolder = "/var/lib/gcu-node-agent"
	ballast       = journalFolder + "/ballast"
)

// fullDisk: the disk with a node agent's journal is full when an upgrade starts. Nothing
// starts that cannot be recorded, the reason is shown in status and logs, nothing is
// lost, and the upgrade continues when there is space.
func (s *stage) fullDisk() {
	node := victims[0]
	s.limitedTo(node)
	s.giveSmallDisk(node)
	kept := s.journal(node)
	s.fillDisk(node)
	s.restartAgent(node) // a container keeps the folder that existed when it started
	driver, training := s.podOn(driverSet, node), s.trainerOn(node)
	tag := other(s.gr().Spec.Driver.Version)
	s.set("driver", tag)
	s.eventually("the operation says that the disk of "+node+" is full", func() error { return s.reportsDiskFull(node) })
	s.refusesRequests(node)
	if now := s.podOn(driverSet, node); now == nil || now.UID != driver.UID || s.trainerOn(node) != training {
		s.t.Errorf("node %s was touched although its disk is full", node)
	}
	for name, content := range kept {
		if now := s.journal(node)[name]; now != content {
			s.t.Errorf("the journal had %s with %q, now %q", name, content, now)
		}
	}
	s.on(node, "rm", ballast)
	s.eventually("the node has the new driver", func() error { return s.driverIs(tag, node) })
	s.eventually("all cards are used again", s.trains)
	s.driverWasNotForced()
}

// diskFillsInTheMiddle is the same while the operation drains the node.
func (s *stage) diskFillsInTheMiddle() {
	node := victims[0]
	s.limitedTo(node)
	s.giveSmallDisk(node)
	s.restartAgent(node)
	tag := other(s.gr().Spec.Driver.Version)
	s.set("driver", tag)
	s.eventually("the operation of "+node+" is at its drain", func() error {
		if op := s.upgrade(node).Status.Operation; op == nil || op.Task != node+"_node_evict" {
			return fmt.Errorf("it is at %+v", op)
		}
		return nil
	})
	s.fillDisk(node)
	s.eventually("the operation says that the disk of "+node+" is full", func() error { return s.reportsDiskFull(node) })
	s.on(node, "rm", ballast)
	s.eventually("the node has the other driver", func() error { return s.driverIs(tag, node) })
	s.eventually("all cards are used again", s.trains)
}

// giveSmallDisk puts the journal of a node on its own file system, for the next agent.
func (s *stage) giveSmallDisk(node string) {
	s.t.Helper()
	s.on(node, "sh", "-ec", "cp -a "+journalFolder+" /run/journal; mount -t tmpfs -o size=1m small "+journalFolder+"; cp -a /run/journal/. "+journalFolder)
}

// fillDisk fills the disk of the journal.
func (s *stage) fillDisk(node string) {
	s.t.Helper()
	s.on(node, "sh", "-c", "cat /dev/zero >>"+ballast+"; [ $(stat --file-system --format=%f "+journalFolder+") = 0 ]")
}

// journal returns the contents of a node's journal files, except for observations of the
// node, which change all the time.
func (s *stage) journal(node string) map[string]string {
	s.t.Helper()
	files := map[string]string{}
	for line := range strings.Lines(s.on(node, "sh", "-c", "cd "+journalFolder+" && sha256sum tasks/* hold/* operations/* requests/* 2>/dev/null; true")) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		files[name] = sum
	}
	return files
}

// restartAgent replaces the agent pod of a node.
func (s *stage) restartAgent(node string) {
	s.t.Helper()
	before := s.podOn(agentSet, node)
	s.kubectl("delete", "pod", "--namespace="+system, before.Name)
	s.eventually("the agent of "+node+" serves again", func() error {
		now := s.podOn(agentSet, node)
		if now == nil || now.UID == before.UID || !ready(now) {
			return fmt.Errorf("its pod is %+v", now)
		}
		_, err := s.OnNode(s.ctx, node, nil, "curl", "--silent", "--fail", "--unix-socket", otaSocket, "http://localhost/healthz")
		return err
	})
}

// reportsDiskFull returns nil if the operation of a node reports that its disk is full.
func (s *stage) reportsDiskFull(node string) error {
	op := s.upgrade(node).Status.Operation
	if op == nil || !strings.Contains(op.Message, "no space left on device") || !strings.Contains(op.Message, "state directory") {
		return fmt.Errorf("it says %+v", op)
	}
	return nil
}

// refusesRequests checks the responses of a node agent whose disk is full.
func (s *stage) refusesRequests(node string) {
	s.t.Helper()
	at := func(args ...string) string {
		return s.on(node, append([]string{"curl", "--silent", "--write-out", " %{http_code}", "--unix-socket", otaSocket}, args...)...)
	}
	if answer := at("http://localhost/v1/status"); !strings.HasSuffix(answer, " 200") {
		s.t.Errorf("GET /v1/status answers %s", answer)
	}
	if answer := at("--request", "POST", "--data", `{"message":"surgery"}`, "--header", "Content-Type: application/json", "http://localhost/v1/hold"); !strings.HasSuffix(answer, " 500") ||
		!strings.Contains(answer, "no space left on device") || !strings.Contains(answer, "make room") {
		s.t.Errorf("POST /v1/hold answers %s", answer)
	}
	log := s.kubectl("logs", "--namespace="+system, s.podOn(agentSet, node).Name)
	if !strings.Contains(log, "no space left on device") {
		s.t.Errorf("the agent of %s logs %s", node, log)
	}
}

// trainerOn returns the training pod of a node that is not being deleted, "" for none.
func (s *stage) trainerOn(node string) types.UID {
	s.t.Helper()
	for _, pod := range s.pods("default", "app", "training") {
		if pod.Spec.NodeName == node && pod.DeletionTimestamp == nil {
			return pod.UID
		}
	}
	return ""
}

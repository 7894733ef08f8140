package nodes

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// journalFolder is where the node agent keeps what was asked for and begun, and ballast
// what fills its disk.
const (
	journalFolder = "/var/lib/gcu-node-agent"
	ballast       = journalFolder + "/ballast"
)

// fullDisk: the disk under the journal of a node agent is full when an upgrade comes. What cannot be
// recorded is not begun, the reason is told wherever a person looks, nothing is lost, and when
// there is room it goes on.
func (s *stage) fullDisk() {
	node := victims[0]
	s.limitedTo(node)
	s.giveSmallDisk(node)
	kept := s.journal(node)
	s.fillDisk(node)
	s.restartAgent(node) // a container has the folder that was there when it began
	driver, training := s.podOn(driverSet, node), s.trainerOn(node)
	tag := other(s.gr().Spec.Driver.Version)
	s.set("driver", tag)
	s.eventually("the operation says that the disk of "+node+" is full", func() error { return s.saysDiskFull(node) })
	s.refusesRequests(node)
	if now := s.podOn(driverSet, node); now == nil || now.UID != driver.UID || s.trainerOn(node) != training {
		s.t.Errorf("node %s was touched although nothing can be recorded there", node)
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

// diskFillsInTheMiddle is the same when the operation of the node is at its drain.
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
	s.eventually("the operation says that the disk of "+node+" is full", func() error { return s.saysDiskFull(node) })
	s.on(node, "rm", ballast)
	s.eventually("the node has the other driver", func() error { return s.driverIs(tag, node) })
	s.eventually("all cards are used again", s.trains)
}

// giveSmallDisk puts the journal of a node on a file system of its own, for the next agent.
func (s *stage) giveSmallDisk(node string) {
	s.t.Helper()
	s.on(node, "sh", "-ec", "cp -a "+journalFolder+" /run/journal; mount -t tmpfs -o size=1m small "+journalFolder+"; cp -a /run/journal/. "+journalFolder)
}

// fillDisk takes what is left of the disk of the journal.
func (s *stage) fillDisk(node string) {
	s.t.Helper()
	s.on(node, "sh", "-c", "cat /dev/zero >>"+ballast+"; [ $(stat --file-system --format=%f "+journalFolder+") = 0 ]")
}

// journal returns what is in the files of the journal of a node, but for what was seen of
// the node, which changes all the time.
func (s *stage) journal(node string) map[string]string {
	s.t.Helper()
	files := map[string]string{}
	for line := range strings.Lines(s.on(node, "sh", "-c", "cd "+journalFolder+" && sha256sum tasks/* hold/* operations/* requests/* 2>/dev/null; true")) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		files[name] = sum
	}
	return files
}

// restartAgent has the agent of a node begin anew, as another pod.
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

// saysDiskFull tells what is missing until the operation of a node says that nothing can
// be recorded there.
func (s *stage) saysDiskFull(node string) error {
	op := s.upgrade(node).Status.Operation
	if op == nil || !strings.Contains(op.Message, "no space left on device") || !strings.Contains(op.Message, "state directory") {
		return fmt.Errorf("it says %+v", op)
	}
	return nil
}

// refusesRequests checks what the person at a node is told whose disk is full.
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

// trainerOn returns the training pod of a node that is not on its way out, "" for none.
func (s *stage) trainerOn(node string) types.UID {
	s.t.Helper()
	for _, pod := range s.pods("default", "app", "training") {
		if pod.Spec.NodeName == node && pod.DeletionTimestamp == nil {
			return pod.UID
		}
	}
	return ""
}

package hostagent

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecide(t *testing.T) {
	gone := errors.New("connection refused")
	fresh := func(change func(*sighting)) sighting {
		s := sighting{
			want: RestartRuntime{DefaultRuntime: "enflame", Allowed: true}, canRestart: true, byHand: "systemctl restart docker", config: "/etc/docker/daemon.json",
			engine: Docker, instance: "boot/1/1", defaultRuntime: "runc", configured: "enflame", confNamed: true,
		}
		change(&s)
		return s
	}
	after := func(change func(*sighting)) sighting {
		s := fresh(func(*sighting) {})
		s.begun = &begun{Engine: Docker, Before: "boot/1/1", Attempts: 1}
		change(&s)
		return s
	}
	same := func(*sighting) {}
	type want struct {
		Step   step
		State  State
		Reason Reason
	}
	tests := map[string]struct {
		in   sighting
		want want
	}{
		"asks when the default is another one": {fresh(same), want{begin, Running, ReasonInProgress}},
		"skips when the running daemon has the wanted default": {fresh(func(s *sighting) { s.defaultRuntime = "enflame" }),
			want{report, Done, ReasonAlreadyDefault}},
		"skips even when the files say otherwise": {fresh(func(s *sighting) { s.defaultRuntime, s.configured = "enflame", "runc" }),
			want{report, Done, ReasonAlreadyDefault}},
		"leaves it to the administrator": {fresh(func(s *sighting) { s.want.Allowed = false }),
			want{report, Waiting, ReasonLeftToAdministrator}},
		"does not restart for a configuration that is not there": {fresh(func(s *sighting) { s.configured = "runc" }),
			want{report, Failed, ReasonNotConfigured}},
		"waits for the toolkit to configure it": {fresh(func(s *sighting) { s.configured, s.fresh = "runc", true }),
			want{report, Running, ReasonNotConfigured}},
		"waits for the toolkit to name it": {fresh(func(s *sighting) { s.configured, s.confNamed, s.fresh = "", false, true }),
			want{report, Running, ReasonNotConfigured}},
		"does not wait when it is configured": {fresh(func(s *sighting) { s.fresh = true }), want{begin, Running, ReasonInProgress}},
		"restarts when the files do not say": {fresh(func(s *sighting) { s.configured, s.confNamed = "", false }),
			want{begin, Running, ReasonInProgress}},
		"begins nothing it could not tell from nothing": {fresh(func(s *sighting) { s.instanceErr = gone }),
			want{report, Running, ReasonInstanceUnknown}},
		"needs a service manager":            {fresh(func(s *sighting) { s.canRestart = false }), want{report, Failed, ReasonNoServiceManager}},
		"waits for an engine":                {fresh(func(s *sighting) { s.engineErr = gone }), want{report, Running, ReasonNoEngine}},
		"starts a daemon that does not run":  {fresh(func(s *sighting) { s.instance, s.statusErr = notRunning, gone }), want{begin, Running, ReasonInProgress}},
		"asks after the request is recorded": {after(func(s *sighting) { s.begun.Attempts = 0 }), want{Step: ask}},

		"is done by facts when it comes back": {after(func(s *sighting) { s.instance, s.defaultRuntime = "boot/2/9", "enflame" }),
			want{finish, Done, ReasonRestarted}},
		"is done after a reboot": {after(func(s *sighting) { s.instance, s.defaultRuntime = "other/1/1", "enflame" }),
			want{finish, Done, ReasonRestarted}},
		"is done even past the deadline": {after(func(s *sighting) { s.instance, s.defaultRuntime, s.expired = "boot/2/9", "enflame", true }),
			want{finish, Done, ReasonRestarted}},
		"never restarts a second time for a wrong default": {after(func(s *sighting) { s.instance = "boot/2/9" }),
			want{finish, Failed, ReasonWrongDefault}},
		"waits for the socket of the new daemon": {after(func(s *sighting) { s.instance, s.statusErr = "boot/2/9", gone }), want{Step: wait}},
		"fails when the new daemon does not answer in time": {after(func(s *sighting) { s.instance, s.statusErr, s.expired = "boot/2/9", gone, true }),
			want{finish, Failed, ReasonNotBack}},
		"waits for its own container": {after(func(s *sighting) {
			s.instance, s.defaultRuntime, s.ownGone = "boot/2/9", "enflame", errOwnContainer
		}), want{Step: wait}},
		"fails when its own container stays away": {after(func(s *sighting) {
			s.instance, s.defaultRuntime, s.ownGone, s.expired = "boot/2/9", "enflame", errOwnContainer, true
		}), want{finish, Failed, ReasonNotBack}},

		"waits a while for a restart that was handed over": {after(same), want{Step: wait}},
		"asks again when nothing came of it":               {after(func(s *sighting) { s.settled = true }), want{Step: ask}},
		"does not ask while it is going on":                {after(func(s *sighting) { s.settled, s.busy = true, true }), want{Step: wait}},
		"does not ask again when it cannot tell":           {after(func(s *sighting) { s.settled, s.busyErr = true, gone }), want{Step: wait}},
		"asks the first time all the same, to hear why":    {after(func(s *sighting) { s.begun.Attempts, s.busyErr = 0, gone }), want{Step: ask}},
		"does not ask again after an answer":               {after(func(s *sighting) { s.settled, s.begun.Answered = true, true }), want{Step: wait}},
		"does not ask for ever":                            {after(func(s *sighting) { s.settled, s.begun.Attempts = true, maxAttempts }), want{Step: wait}},
		"asks nothing past the deadline":                   {after(func(s *sighting) { s.settled, s.expired = true, true }), want{finish, Failed, ReasonNotRestarted}},
		"waits while it cannot tell the instance":          {after(func(s *sighting) { s.instanceErr, s.settled = gone, true }), want{Step: wait}},
		"fails at the deadline without knowing":            {after(func(s *sighting) { s.instanceErr, s.expired = gone, true }), want{finish, Failed, ReasonInstanceUnknown}},
		"fails at once when it was refused without effect": {after(func(s *sighting) { s.begun.Refused = "exit status 1" }), want{finish, Failed, ReasonRestartFailed}},
		"tells what to do for a daemon that did not come back, and waits": {after(func(s *sighting) { s.instance, s.begun.Refused, s.begun.Answered = notRunning, "exit status 1", true }),
			want{wait, Running, ReasonNotBack}},
		"tells the same of one that is begun anew and ends again": {after(func(s *sighting) {
			s.instance, s.statusErr, s.begun.Refused, s.begun.Answered = "boot/2/9", gone, "exit status 1", true
		}), want{wait, Running, ReasonNotBack}},
		"waits for a daemon that is said to be restarted":   {after(func(s *sighting) { s.instance, s.begun.Answered = notRunning, true }), want{Step: wait}},
		"fails when the daemon does not come up":            {after(func(s *sighting) { s.instance, s.expired = notRunning, true }), want{finish, Failed, ReasonNotBack}},
		"is done when the daemon took the new default live": {after(func(s *sighting) { s.defaultRuntime = "enflame" }), want{finish, Done, ReasonAlreadyDefault}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := decide(test.in)
			if diff := cmp.Diff(test.want, want{d.step, d.state, d.reason}); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
			if test.want.Reason == ReasonLeftToAdministrator && !strings.Contains(d.message, "systemctl restart docker") {
				t.Errorf("%q does not say what to run", d.message)
			}
			if test.want.Reason == ReasonNotBack && test.in.ownGone == nil && d.message != "docker does not answer"+because(test.in)+
				": its log on the node says why; repair /etc/docker/daemon.json there, and run: systemctl restart docker" {
				t.Errorf("%q does not say what to do", d.message)
			}
			if d.state != "" && d.message == "" {
				t.Error("it does not say why")
			}
		})
	}
}

func TestChoose(t *testing.T) {
	silent := errors.New("silent")
	tests := map[string]struct {
		in   candidates
		want Engine
	}{
		"containerd runs the pods":                      {candidates{docker: silent}, Containerd},
		"docker with a containerd that runs no pods":    {candidates{containerd: silent}, Docker},
		"both answer: the kubelet speaks to containerd": {candidates{}, Containerd},
		"both answer and cri-dockerd is there":          {candidates{criDockerd: true}, Docker},
		"cri-dockerd is there and docker is down":       {candidates{criDockerd: true, docker: silent}, Docker},
		"none answers": {candidates{containerd: silent, docker: silent}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := choose(test.in)
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("choose = %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

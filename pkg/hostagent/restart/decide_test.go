package restart

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// Contract 86.
func TestDecide(t *testing.T) {
	gone := errors.New("connection refused")
	fresh := func(change func(*Facts)) Facts {
		s := Facts{
			Want: task.RestartRuntime{DefaultRuntime: "enflame", Allowed: true}, CanRestart: true, Command: "systemctl restart docker", Config: "/etc/docker/daemon.json",
			Runtime: task.RuntimeFacts{Engine: task.Docker, Instance: "boot/1/1", Default: "runc"}, Configured: "enflame", Named: true,
		}
		change(&s)
		return s
	}
	after := func(change func(*Facts)) Facts {
		s := fresh(func(*Facts) {})
		s.Begun = &task.Begun{Engine: task.Docker, Before: "boot/1/1", Attempts: 1}
		change(&s)
		return s
	}
	same := func(*Facts) {}
	type want struct {
		Step   Step
		State  topsv1.HostTaskState
		Reason task.Reason
	}
	tests := map[string]struct {
		in   Facts
		want want
	}{
		"asks when the default is another one": {fresh(same), want{Begin, topsv1.HostTaskRunning, task.ReasonInProgress}},
		"skips when the running daemon has the wanted default": {fresh(func(s *Facts) { s.Runtime.Default = "enflame" }),
			want{Report, topsv1.HostTaskDone, task.ReasonAlreadyDefault}},
		"skips even when the files say otherwise": {fresh(func(s *Facts) { s.Runtime.Default, s.Configured = "enflame", "runc" }),
			want{Report, topsv1.HostTaskDone, task.ReasonAlreadyDefault}},
		"leaves it to the administrator": {fresh(func(s *Facts) { s.Want.Allowed = false }),
			want{Report, topsv1.HostTaskWaiting, task.ReasonLeftToAdministrator}},
		"does not restart for a configuration that is not there": {fresh(func(s *Facts) { s.Configured = "runc" }),
			want{Report, topsv1.HostTaskFailed, task.ReasonNotConfigured}},
		"waits for the toolkit to configure it": {fresh(func(s *Facts) { s.Configured, s.Fresh = "runc", true }),
			want{Report, topsv1.HostTaskRunning, task.ReasonNotConfigured}},
		"waits for the toolkit to name it": {fresh(func(s *Facts) { s.Configured, s.Named, s.Fresh = "", false, true }),
			want{Report, topsv1.HostTaskRunning, task.ReasonNotConfigured}},
		"does not wait when it is configured": {fresh(func(s *Facts) { s.Fresh = true }), want{Begin, topsv1.HostTaskRunning, task.ReasonInProgress}},
		"restarts when the files do not say": {fresh(func(s *Facts) { s.Configured, s.Named = "", false }),
			want{Begin, topsv1.HostTaskRunning, task.ReasonInProgress}},
		"waits for a configuration that is being written": {fresh(func(s *Facts) { s.Configured, s.Named, s.ConfigErr, s.Fresh = "", false, gone, true }),
			want{Report, topsv1.HostTaskRunning, task.ReasonNotConfigured}},
		"does not restart into a configuration that cannot be read": {fresh(func(s *Facts) { s.Configured, s.Named, s.ConfigErr = "", false, gone }),
			want{Report, topsv1.HostTaskFailed, task.ReasonNotConfigured}},
		"begins nothing it could not tell from nothing": {fresh(func(s *Facts) { s.InstanceErr = gone }),
			want{Report, topsv1.HostTaskRunning, task.ReasonInstanceUnknown}},
		"needs a service manager":            {fresh(func(s *Facts) { s.CanRestart = false }), want{Report, topsv1.HostTaskFailed, task.ReasonNoServiceManager}},
		"waits for an engine":                {fresh(func(s *Facts) { s.EngineErr = gone }), want{Report, topsv1.HostTaskRunning, task.ReasonNoEngine}},
		"starts a daemon that does not run":  {fresh(func(s *Facts) { s.Runtime.Instance, s.StatusErr = NotRunning, gone }), want{Begin, topsv1.HostTaskRunning, task.ReasonInProgress}},
		"asks after the request is recorded": {after(func(s *Facts) { s.Begun.Attempts = 0 }), want{Step: Attempt}},
		"waits for a daemon that runs and does not respond": {fresh(func(s *Facts) { s.StatusErr, s.Runtime.Default = gone, "" }),
			want{Report, topsv1.HostTaskRunning, task.ReasonNoEngine}},
		"waits for it whatever the files say": {fresh(func(s *Facts) { s.StatusErr, s.Runtime.Default, s.Configured = gone, "", "runc" }),
			want{Report, topsv1.HostTaskRunning, task.ReasonNoEngine}},
		"waits for it also when its process is unknown": {fresh(func(s *Facts) { s.StatusErr, s.InstanceErr, s.Runtime.Default, s.Runtime.Instance = gone, gone, "", "" }),
			want{Report, topsv1.HostTaskRunning, task.ReasonNoEngine}},
		"does not tell the administrator to restart it": {fresh(func(s *Facts) { s.StatusErr, s.Runtime.Default, s.Want.Allowed = gone, "", false }),
			want{Report, topsv1.HostTaskRunning, task.ReasonNoEngine}},
		"does not restart one that has stopped responding": {after(func(s *Facts) { s.Begun.Attempts, s.StatusErr, s.Runtime.Default = 0, gone, "" }), want{Step: Wait}},
		"fails when it does not respond by the deadline": {after(func(s *Facts) { s.Begun.Attempts, s.StatusErr, s.Runtime.Default, s.Expired = 0, gone, "", true }),
			want{Finish, topsv1.HostTaskFailed, task.ReasonNotRestarted}},
		"starts one that has ended since": {after(func(s *Facts) {
			s.Begun.Attempts, s.StatusErr, s.Runtime.Default, s.Runtime.Instance = 0, gone, "", NotRunning
		}), want{Step: Attempt}},

		"is done by facts when it comes back": {after(func(s *Facts) { s.Runtime.Instance, s.Runtime.Default = "boot/2/9", "enflame" }),
			want{Finish, topsv1.HostTaskDone, task.ReasonRestarted}},
		"is done after a reboot": {after(func(s *Facts) { s.Runtime.Instance, s.Runtime.Default = "other/1/1", "enflame" }),
			want{Finish, topsv1.HostTaskDone, task.ReasonRestarted}},
		"is done even past the deadline": {after(func(s *Facts) { s.Runtime.Instance, s.Runtime.Default, s.Expired = "boot/2/9", "enflame", true }),
			want{Finish, topsv1.HostTaskDone, task.ReasonRestarted}},
		"never restarts a second time for a wrong default": {after(func(s *Facts) { s.Runtime.Instance = "boot/2/9" }),
			want{Finish, topsv1.HostTaskFailed, task.ReasonWrongDefault}},
		"waits for the socket of the new daemon": {after(func(s *Facts) { s.Runtime.Instance, s.StatusErr = "boot/2/9", gone }), want{Step: Wait}},
		"fails when the new daemon does not answer in time": {after(func(s *Facts) { s.Runtime.Instance, s.StatusErr, s.Expired = "boot/2/9", gone, true }),
			want{Finish, topsv1.HostTaskFailed, task.ReasonNotBack}},
		"waits for its own container": {after(func(s *Facts) {
			s.Runtime.Instance, s.Runtime.Default, s.OwnGone = "boot/2/9", "enflame", gone
		}), want{Step: Wait}},
		"fails when its own container stays away": {after(func(s *Facts) {
			s.Runtime.Instance, s.Runtime.Default, s.OwnGone, s.Expired = "boot/2/9", "enflame", gone, true
		}), want{Finish, topsv1.HostTaskFailed, task.ReasonNotBack}},

		"waits a while for a restart that was handed over":            {after(same), want{Step: Wait}},
		"asks again when nothing came of it":                          {after(func(s *Facts) { s.GraceOver = true }), want{Step: Attempt}},
		"does not ask while it is going on":                           {after(func(s *Facts) { s.GraceOver, s.Busy = true, true }), want{Step: Wait}},
		"does not ask again when it cannot tell":                      {after(func(s *Facts) { s.GraceOver, s.BusyErr = true, gone }), want{Step: Wait}},
		"asks the first time all the same, to hear why":               {after(func(s *Facts) { s.Begun.Attempts, s.BusyErr = 0, gone }), want{Step: Attempt}},
		"does not ask again after an answer":                          {after(func(s *Facts) { s.GraceOver, s.Begun.Answered = true, true }), want{Step: Wait}},
		"does not ask for ever":                                       {after(func(s *Facts) { s.GraceOver, s.Begun.Attempts = true, maxAttempts }), want{Step: Wait}},
		"asks nothing past the deadline":                              {after(func(s *Facts) { s.GraceOver, s.Expired = true, true }), want{Finish, topsv1.HostTaskFailed, task.ReasonNotRestarted}},
		"waits while it cannot tell the instance":                     {after(func(s *Facts) { s.InstanceErr, s.GraceOver = gone, true }), want{Step: Wait}},
		"fails at the deadline without knowing":                       {after(func(s *Facts) { s.InstanceErr, s.Expired = gone, true }), want{Finish, topsv1.HostTaskFailed, task.ReasonInstanceUnknown}},
		"waits for a restart that goes on though its answer was lost": {after(func(s *Facts) { s.Begun.Refused, s.Busy = "closed", true }), want{Step: Wait}},
		"does not fail at its deadline while it is going on":          {after(func(s *Facts) { s.Expired, s.Busy = true, true }), want{Wait, topsv1.HostTaskRunning, task.ReasonInProgress}},
		"fails at its deadline when the daemon is down": {after(func(s *Facts) { s.Runtime.Instance, s.Expired, s.Busy = NotRunning, true, true }),
			want{Finish, topsv1.HostTaskFailed, task.ReasonNotBack}},
		"is not done before a restart that is going on":    {after(func(s *Facts) { s.Runtime.Default, s.Busy = "enflame", true }), want{Step: Wait}},
		"fails at once when it was refused without effect": {after(func(s *Facts) { s.Begun.Refused = "exit status 1" }), want{Finish, topsv1.HostTaskFailed, task.ReasonRestartFailed}},
		"says what to do about a daemon that did not come back, and waits": {after(func(s *Facts) {
			s.Runtime.Instance, s.Begun.Refused, s.Begun.Answered = NotRunning, "exit status 1", true
		}),
			want{Wait, topsv1.HostTaskRunning, task.ReasonNotBack}},
		"says the same about one that is started again and ends again": {after(func(s *Facts) {
			s.Runtime.Instance, s.StatusErr, s.Begun.Refused, s.Begun.Answered = "boot/2/9", gone, "exit status 1", true
		}), want{Wait, topsv1.HostTaskRunning, task.ReasonNotBack}},
		"waits for a daemon that is said to be restarted":   {after(func(s *Facts) { s.Runtime.Instance, s.Begun.Answered = NotRunning, true }), want{Step: Wait}},
		"fails when the daemon does not come up":            {after(func(s *Facts) { s.Runtime.Instance, s.Expired = NotRunning, true }), want{Finish, topsv1.HostTaskFailed, task.ReasonNotBack}},
		"is done when the daemon took the new default live": {after(func(s *Facts) { s.Runtime.Default = "enflame" }), want{Finish, topsv1.HostTaskDone, task.ReasonAlreadyDefault}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := Decide(test.in)
			if diff := cmp.Diff(test.want, want{d.Step, d.State, d.Reason}); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
			if test.want.Reason == task.ReasonLeftToAdministrator && !strings.Contains(d.Message, "systemctl restart docker") {
				t.Errorf("%q does not say what to run", d.Message)
			}
			if test.want.Reason == task.ReasonNotBack && test.in.OwnGone == nil && d.Message != "docker is not responding"+because(test.in)+
				": its log on the node says why; repair /etc/docker/daemon.json there, and run: systemctl restart docker" {
				t.Errorf("%q does not say what to do", d.Message)
			}
			if test.want.Reason == task.ReasonNotRestarted && test.in.StatusErr != nil && !strings.HasSuffix(d.Message, "does not respond: "+gone.Error()) {
				t.Errorf("%q does not say that it does not respond", d.Message)
			}
			if d.State != "" && d.Message == "" {
				t.Error("it does not say why")
			}
		})
	}
}

func TestTheMessageNamesWhatARestartStops(t *testing.T) {
	f := Facts{Want: task.RestartRuntime{DefaultRuntime: "enflame"}, Command: "systemctl restart docker", Runtime: task.RuntimeFacts{Engine: "docker", Default: "runc", RestartStopsContainers: true}}
	const words = "docker must be restarted for default runtime enflame, and this is left to the administrator (--restart-runtime=false): run on the node"
	if got, want := Decide(f).Message, words+" (this stops all containers of the node): systemctl restart docker"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	f.Runtime.RestartStopsContainers = false
	if got, want := Decide(f).Message, words+": systemctl restart docker; then pods of device plugin, exporter and gfd that started before are replaced: they have no cards"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

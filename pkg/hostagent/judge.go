package hostagent

import (
	"fmt"
	"strings"
)

// Verdict is what facts mean for a verification.
type Verdict string

// Verdicts.
const (
	// Passed: everything that was asked for is shown.
	Passed Verdict = "Passed"
	// Undecided: something is not shown yet; look again before the deadline.
	Undecided Verdict = "Undecided"
	// Rejected: the deadline passed and something is not shown.
	Rejected Verdict = "Rejected"
)

// Expectation is what a verification wants to see. An empty field is not asked for.
type Expectation struct {
	// DriverLoaded asks for a loaded driver and for its cards; DriverVersion for
	// this version of it as well.
	DriverLoaded  bool
	DriverVersion string
	// DefaultRuntime of the running daemon.
	DefaultRuntime string
}

// Judge says whether facts show what is expected, with the reasons when not, in
// a fixed order. before is what the node showed before it was disturbed.
//
// Cards are compared with before, so that one that was broken already does not
// blame the new version. A node that had no driver must show one card at least.
// Evidence that is missing is waited for, and rejects once expired is true: the
// deadline has passed (design section 4).
func Judge(want Expectation, before, now Facts, expired bool) (Verdict, []string) {
	var lacking []string
	if want.DriverLoaded || want.DriverVersion != "" {
		lacking = append(lacking, judgeDriver(want, before.Host, now.Host)...)
	}
	if want.DefaultRuntime != "" {
		lacking = append(lacking, judgeRuntime(want.DefaultRuntime, now.Runtime)...)
	}
	switch {
	case len(lacking) == 0:
		return Passed, nil
	case expired:
		return Rejected, lacking
	}
	return Undecided, lacking
}

func judgeDriver(want Expectation, before, now *HostFacts) []string {
	if now == nil {
		return []string{"the agent has not told what the node shows"}
	}
	var lacking []string
	switch {
	case now.DriverVersion == "":
		lacking = append(lacking, "no driver is loaded"+explained(now.Missing, "driver version"))
	case want.DriverVersion != "" && now.DriverVersion != want.DriverVersion:
		lacking = append(lacking, fmt.Sprintf("driver %s is loaded, not %s", now.DriverVersion, want.DriverVersion))
	}
	if before == nil {
		return append(lacking, "it was not recorded how many cards the node had before")
	}
	needed := before.Devices
	if before.DriverVersion == "" {
		needed = max(needed, 1)
	}
	if now.Devices < needed {
		lacking = append(lacking, fmt.Sprintf("%d cards are there, %d are needed: the node had %d before%s",
			now.Devices, needed, before.Devices, explained(now.Missing, "devices")))
	}
	return lacking
}

func judgeRuntime(want string, now *RuntimeFacts) []string {
	switch {
	case now == nil:
		return []string{"no container engine answers"}
	case now.Default != want:
		return []string{fmt.Sprintf("the default runtime of %s is %s, not %s", now.Engine, now.Default, want)}
	}
	return nil
}

// explained returns why a fact is missing, for the end of a message.
func explained(missing []string, what string) string {
	for _, text := range missing {
		if reason, ok := strings.CutPrefix(text, what+": "); ok {
			return " (" + reason + ")"
		}
	}
	return ""
}

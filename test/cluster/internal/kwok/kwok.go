// Package kwok writes the configuration of kwok, which plays the kubelets of the
// simulated nodes. stages.yaml says what it does with nodes and pods:
//
//	node     created ──▶ Ready ──▶ Ready, renewing its lease
//	pod      Pending ──delay──▶ Running, Ready ──▶ deleted when asked to
//	                  ├──▶ Running, never Ready   (BehaviourNeverReady)
//	                  └──▶ Running, crashing again and again (BehaviourCrashLoop)
//	         Running, not Ready ──▶ Running, Ready   (the node was lost and came back)
//	         Ready pod of a Job ──▶ Succeeded
package kwok

import (
	"bytes"
	_ "embed"
	"fmt"
	"text/template"
	"time"
)

const (
	// OnlineLabel with the value OnlineValue is on the nodes kwok plays. Taking
	// it away loses the node: nobody renews its lease or looks after its pods.
	OnlineLabel = "testcluster/online"
	// OnlineValue is the only value of OnlineLabel.
	OnlineValue = "true"

	// BehaviourLabel on a pod makes it behave badly.
	BehaviourLabel = "testcluster/behaviour"
	// BehaviourNeverReady is a pod that runs and never becomes Ready.
	BehaviourNeverReady = "never-ready"
	// BehaviourCrashLoop is a pod whose containers crash again and again.
	BehaviourCrashLoop = "crash-loop"

	// ReadyDelayAnnotation on a pod is the time until it is Ready, such as "5s",
	// instead of Timing's; then without jitter, unless ReadyDelayMaxAnnotation is set.
	ReadyDelayAnnotation = "testcluster/pod-ready-delay"
	// ReadyDelayMaxAnnotation is the upper end of a random delay that begins at
	// ReadyDelayAnnotation.
	ReadyDelayMaxAnnotation = "testcluster/pod-ready-delay-max"
)

// Timing is how fast pods live.
type Timing struct {
	// PodReadyDelay is the least time from a pod's binding until it is Ready.
	PodReadyDelay time.Duration
	// PodReadyJitter is how much longer, at random, it may take.
	PodReadyJitter time.Duration
	// PodDeleteDelay is how long a pod takes to end after it was deleted.
	PodDeleteDelay time.Duration
}

//go:embed stages.yaml
var stagesYAML string

// The template's delimiters leave kwok's own templates, in curly braces, alone.
var stages = template.Must(template.New("stages.yaml").Delims("[[", "]]").Option("missingkey=error").Parse(stagesYAML))

// Config returns the configuration file for kwok.
func Config(t Timing) ([]byte, error) {
	var out bytes.Buffer
	err := stages.Execute(&out, map[string]any{
		"ReadyDelay":    t.PodReadyDelay.Milliseconds(),
		"ReadyDelayMax": (t.PodReadyDelay + t.PodReadyJitter).Milliseconds(),
		"DeleteDelay":   t.PodDeleteDelay.Milliseconds(),
		"Behaviour":     BehaviourLabel,
		"NeverReady":    BehaviourNeverReady,
		"CrashLoop":     BehaviourCrashLoop,
		"DelayKey":      ReadyDelayAnnotation,
		"DelayMaxKey":   ReadyDelayMaxAnnotation,
	})
	if err != nil {
		return nil, fmt.Errorf("rendering kwok's configuration: %w", err)
	}
	return out.Bytes(), nil
}

// Package kwok writes the configuration of kwok, which simulates the kubelets of the
// simulated nodes. stages.yaml defines the life of nodes and pods:
//
//	node     created ──▶ Ready ──▶ Ready, renewing its lease
//	pod      Pending ──delay──▶ Running, Ready ──▶ deleted when asked to
//	                  ├──▶ Running, never Ready   (BehaviorNeverReady)
//	                  └──▶ Running, crashing again and again (BehaviorCrashLoop)
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
	// OnlineLabel with the value OnlineValue is on the nodes that kwok manages. Removing
	// it takes the node offline: its lease and its pods are no longer updated.
	OnlineLabel = "testcluster/online"
	// OnlineValue is the only value of OnlineLabel.
	OnlineValue = "true"

	// BehaviorLabel on a pod makes it fail.
	BehaviorLabel = "testcluster/behavior"
	// BehaviorNeverReady is a pod that runs and never becomes Ready.
	BehaviorNeverReady = "never-ready"
	// BehaviorCrashLoop is a pod whose containers crash again and again.
	BehaviorCrashLoop = "crash-loop"
	// CrashingSuffix is the end of an image that makes a pod without that label do so; before "-on-" and the
	// name of a node, on that node only.
	CrashingSuffix = "-crashes"

	// ReadyDelayAnnotation on a pod is the time until it is Ready, such as "5s",
	// instead of Timing's; then without jitter, unless ReadyDelayMaxAnnotation is set.
	ReadyDelayAnnotation = "testcluster/pod-ready-delay"
	// ReadyDelayMaxAnnotation is the upper end of a random delay that begins at
	// ReadyDelayAnnotation.
	ReadyDelayMaxAnnotation = "testcluster/pod-ready-delay-max"
)

// Timing is how fast pods start and stop.
type Timing struct {
	// PodReadyDelay is the minimum time from a pod's binding until it is Ready.
	PodReadyDelay time.Duration
	// PodReadyJitter is the maximum random time added to it.
	PodReadyJitter time.Duration
	// PodDeleteDelay is the time until a deleted pod is gone.
	PodDeleteDelay time.Duration
}

//go:embed stages.yaml
var stagesYAML string

// The delimiters differ from those of kwok's own templates, {{ and }}.
var stages = template.Must(template.New("stages.yaml").Delims("[[", "]]").Option("missingkey=error").Parse(stagesYAML))

// Config returns the configuration file for kwok.
func Config(t Timing) ([]byte, error) {
	var out bytes.Buffer
	err := stages.Execute(&out, map[string]any{
		"ReadyDelay":    t.PodReadyDelay.Milliseconds(),
		"ReadyDelayMax": (t.PodReadyDelay + t.PodReadyJitter).Milliseconds(),
		"DeleteDelay":   t.PodDeleteDelay.Milliseconds(),
		"Behavior":      BehaviorLabel,
		"NeverReady":    BehaviorNeverReady,
		"CrashLoop":     BehaviorCrashLoop,
		"Crashes":       CrashingSuffix,
		"DelayKey":      ReadyDelayAnnotation,
		"DelayMaxKey":   ReadyDelayMaxAnnotation,
	})
	if err != nil {
		return nil, fmt.Errorf("rendering kwok's configuration: %w", err)
	}
	return out.Bytes(), nil
}

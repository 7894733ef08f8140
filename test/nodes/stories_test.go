package nodes

import (
	"context"
	"testing"
	"time"
)

// storyTime is what one story may take.
const storyTime = 10 * time.Minute

func TestStories(t *testing.T) {
	ctx, cancel := context.WithTimeout(interrupted, 25*time.Minute)
	defer cancel()
	cluster := startCluster(ctx, t)
	(&stage{cluster, t, ctx}).install()
	for _, story := range []struct {
		name string
		tell func(*stage)
	}{
		{"the default gr comes to 5/5 and goes without a trace", (*stage).defaultResource},
		{"a driver is replaced under a running training, which comes back when the cards do", (*stage).driverUnderTraining},
		{"a node that is cut off is skipped, and upgraded when it is back", (*stage).cutOffNode},
		{"a person at a node upgrades it with curl", (*stage).overTheAir},
		{"a budget of pods blocks a node until it is relaxed", (*stage).podBudget},
		{"nodes that lose power in the middle of their upgrade come back and go on", (*stage).powerLoss},
		{"a driver that cuts its node off is rolled back before it reaches another", (*stage).badDriver},
		{"the operator is uninstalled and leaves nothing", (*stage).uninstall},
	} {
		passed := t.Run(story.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(ctx, storyTime)
			defer cancel()
			story.tell(&stage{cluster, t, ctx})
		})
		if !passed {
			return // the stage is not as the next one needs it
		}
	}
}

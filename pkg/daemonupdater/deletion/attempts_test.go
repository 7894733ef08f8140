package deletion

import (
	"errors"
	"testing"
	"time"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// Two groups on one node: the refusal of one says nothing about the other.
func TestARefusalOfAGroupIsNotThatOfAnother(t *testing.T) {
	var asks Attempts
	a, b := observed.Group{Name: "a"}, observed.Group{Name: "b"}
	node := &rollout.Node{Name: "node", UID: "uid-node"}
	asks.Denied(a, "node", "uid-node", errors.New("spec.prepulls[0].pullSecrets: too many"), time.Unix(0, 0))
	if asks.DenialOf(a, node) == nil {
		t.Error("the group that was refused does not know")
	}
	if d := asks.DenialOf(b, node); d != nil {
		t.Errorf("group b, which asked for nothing, is refused: %+v", d)
	}
}

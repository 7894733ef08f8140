package deletion

import (
	"errors"
	"strings"
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
	if !asks.IsDue(b, "uid-node", time.Unix(0, 0)) {
		t.Error("group b may not ask because group a was refused")
	}
	asks.Denied(b, "node", "uid-node", errors.New("no operation today"), time.Unix(0, 0))
	if d := asks.DenialOf(a, node); d == nil || !strings.Contains(d.Message, "too many") {
		t.Errorf("the refusal of group a is %+v after one of group b", d)
	}
	if d := asks.DenialOf(b, node); d == nil || d.Message != "no operation today" {
		t.Errorf("the refusal of group b is %+v", d)
	}
	asks.Allowed(b, "uid-node")
	if asks.DenialOf(a, node) == nil || asks.IsDue(a, "uid-node", time.Unix(0, 0)) {
		t.Error("what group b is allowed, group a may ask again at once")
	}
	if again := asks.NextRetry(b, time.Unix(0, 0)); again != 0 {
		t.Errorf("group b, which was allowed, asks again in %s", again)
	}
	if again := asks.NextRetry(a, time.Unix(0, 0)); again == 0 {
		t.Error("group a does not ask again")
	}
	asks.Prune(b, nil)
	if asks.DenialOf(a, node) == nil {
		t.Error("the end of group b ends the refusal of group a")
	}
}

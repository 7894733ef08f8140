package status

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// success returns the condition of a finished action (contract statement 41).
func success(action string) topsv1.ActionCondition {
	return topsv1.ActionCondition{Action: action, Status: topsv1.ConditionSuccess, Reason: topsv1.ConditionSuccess,
		Message: topsv1.ConditionSuccess, Progress: 100}
}

// setAction returns the list with the condition of one action replaced. An unchanged condition
// keeps its time and its position; a changed one is the newest, so it comes last. The given list
// is not changed.
func setAction(list []topsv1.ActionCondition, c topsv1.ActionCondition, now time.Time) []topsv1.ActionCondition {
	c.Type = c.Action
	list = slices.Clone(list)
	i := slices.IndexFunc(list, func(have topsv1.ActionCondition) bool { return have.Action == c.Action })
	if i >= 0 {
		c.LastUpdateTime = list[i].LastUpdateTime
		if list[i] == c {
			return list
		}
		list = slices.Delete(list, i, i+1)
	}
	c.LastUpdateTime = seconds(now)
	return append(list, c)
}

// seconds returns a time as the API stores it.
func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// underWay maps each action that replaces pods to its phase while it is open.
var underWay = map[string]string{
	topsv1.ActionUpgrade:  topsv1.PhaseUpgrading,
	topsv1.ActionRollback: topsv1.PhaseRollbacking,
}

// isOpen reports whether the condition of an action says that it is in progress.
func isOpen(conditions []topsv1.ActionCondition, action string) bool {
	return slices.ContainsFunc(conditions, func(c topsv1.ActionCondition) bool {
		return c.Action == action && c.Status == underWay[action]
	})
}

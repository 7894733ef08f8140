package request

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/message"
)

const (
	// keptPulls and maxPullMessage are limits of the API.
	keptPulls      = 20
	maxPullMessage = 1024
)

// PullOf returns the pull of the images for a request's revision.
func PullOf(wanted topsv1.UpgradeRequest, now metav1.Time) topsv1.ImagePull {
	return topsv1.ImagePull{ID: PullID(wanted), DaemonSet: wanted.DaemonSet, Pod: wanted.Pod, Revision: wanted.Revision, Time: now}
}

// PullID derives the id of the pull of the images for a request's revision.
func PullID(wanted topsv1.UpgradeRequest) string { return "pull-" + requestID(wanted, 1) }

// LastPulls appends newer pulls to a list, replacing those of the same id, and keeps the
// last ones.
func LastPulls(list, newer []topsv1.ImagePull) []topsv1.ImagePull {
	list = slices.DeleteFunc(slices.Clone(list), func(p topsv1.ImagePull) bool { return HasPull(newer, p.ID) })
	list = append(list, newer...)
	return list[max(0, len(list)-keptPulls):]
}

// HasPull reports whether a pull is in a list.
func HasPull(list []topsv1.ImagePull, id string) bool {
	return slices.ContainsFunc(list, func(p topsv1.ImagePull) bool { return p.ID == id })
}

// PullState returns a pull with its current state, or nil if nothing is recorded of it.
// result is its record, and refused is why it could not be started, or "".
func PullState(pull topsv1.ImagePull, underWay bool, refused string, result *topsv1.HostTaskResult) *topsv1.ImagePull {
	pull.Message = ""
	switch {
	case underWay:
		pull.State = topsv1.PullPulling
		return &pull
	case refused != "":
		pull.State, pull.Message = topsv1.PullFailed, message.Short(refused, maxPullMessage)
		return &pull
	case result == nil || !result.State.Final():
		return nil
	case result.State == topsv1.HostTaskDone:
		pull.State = topsv1.PullReady
	default:
		pull.State, pull.Message = topsv1.PullFailed, message.Short(result.Message, maxPullMessage)
	}
	if result.EndTime != nil {
		pull.Time = *result.EndTime
	}
	return &pull
}

// SetImageReady sets the condition PodImageReady of a pod from the pull of its newest
// images.
func SetImageReady(pod *corev1.Pod, pull *topsv1.ImagePull) {
	c := imageReady(pull)
	if n := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == topsv1.PodImageReady }); n >= 0 {
		pod.Status.Conditions[n] = c
	} else {
		pod.Status.Conditions = append(pod.Status.Conditions, c)
	}
}

// imageReady returns the condition for a pull. Only this copy states why a pull failed: the
// message on the pod itself is that of OpenYurt.
func imageReady(pull *topsv1.ImagePull) corev1.PodCondition {
	c := corev1.PodCondition{
		Type: topsv1.PodImageReady, Status: corev1.ConditionFalse, LastTransitionTime: pull.Time,
		Message: topsv1.PodNeedUpgradeMessagePrefix + pull.Revision,
	}
	switch pull.State {
	case topsv1.PullReady:
		c.Status, c.Reason = corev1.ConditionTrue, topsv1.ReasonPullImageSuccess
	case topsv1.PullFailed:
		c.Reason, c.Message = topsv1.ReasonPullImageFail, c.Message+": "+pull.Message
	default:
		c.Reason = topsv1.ReasonWaitPullImage
	}
	return c
}

package v1

import (
	"cmp"
	"slices"
	"strings"
)

// Approvals returns the approvals of waves and batches, each REVISION/NAME.
func (r *DaemonRollout) Approvals() []string {
	var list []string
	for _, entry := range strings.Split(r.Annotations[AnnotationApprovedWaves], ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			list = append(list, entry)
		}
	}
	return list
}

// LastResume returns the value with which a person last resumed the rollout, "" for none. A new one resumes it; that the
// annotation is gone does not.
func (r *DaemonRollout) LastResume() string {
	return cmp.Or(r.Annotations[AnnotationResume], r.Status.Resumed)
}

// ApprovalsAfterRejection returns annotation AnnotationApprovedWaves without the approvals for the revision that was
// rolled back, which needs others when its rejection ends; ok is false if there are no approvals, or none was rolled back.
func (r *DaemonRollout) ApprovalsAfterRejection() (annotation string, ok bool) {
	rejected, approvals := r.Status.Rollback, r.Approvals()
	if rejected == nil || len(approvals) == 0 {
		return "", false
	}
	return strings.Join(slices.DeleteFunc(approvals, func(entry string) bool { return strings.HasPrefix(entry, rejected.From+"/") }), ","), true
}

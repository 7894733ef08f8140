package v1

import (
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

// ApprovalsWithout returns annotation AnnotationApprovedWaves without the approvals for a revision.
func (r *DaemonRollout) ApprovalsWithout(revision string) string {
	return strings.Join(slices.DeleteFunc(r.Approvals(), func(entry string) bool { return strings.HasPrefix(entry, revision+"/") }), ",")
}

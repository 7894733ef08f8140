// Package denial recognizes requests that admission denied, whatever code a webhook or a policy chose.
package denial

import (
	"errors"
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// byAdmission matches how the API server words a denial. The code says nothing: a webhook may choose any, and a
// policy one of four. A webhook that cannot be called has not denied anything.
var byAdmission = regexp.MustCompile(`admission webhook "[^"]+" denied the request|[Pp]olicy '[^']+' (with binding '[^']+' )?denied request|is forbidden: exceeded quota: `)

// IsConflict reports whether the API server refused a request because its object has changed. A webhook may deny with that code.
func IsConflict(err error) bool { return apierrors.IsConflict(err) && !ByAdmission(err) }

// IsAlreadyExists reports whether the API server refused to create an object because one of its name exists. A webhook may deny with that code.
func IsAlreadyExists(err error) bool { return apierrors.IsAlreadyExists(err) && !ByAdmission(err) }

// IsNotFound reports whether the API server refused a request because its object does not exist. A webhook may deny with that code.
func IsNotFound(err error) bool { return apierrors.IsNotFound(err) && !ByAdmission(err) }

// IgnoreNotFound returns nil if an error is none, or proves that the object does not exist; else the error.
func IgnoreNotFound(err error) error {
	if IsNotFound(err) {
		return nil
	}
	return err
}

// IsGoneOrChanged reports whether the API server refused a request because its object no longer exists, or not as it was.
func IsGoneOrChanged(err error) bool {
	return IsNotFound(err) || IsConflict(err)
}

// ByAdmission reports whether an admission webhook, an admission policy or a quota denied a request of the API server.
func ByAdmission(err error) bool {
	api, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && byAdmission.MatchString(api.ErrStatus.Message)
}

package request

import "fmt"

// HTTP statuses of refusals; net/http is not imported here.
const (
	statusBadRequest = 400
	statusNotFound   = 404
	statusConflict   = 409
)

// Refusal is an error with the HTTP status and the text that the caller gets.
type Refusal struct {
	Status  int
	Message string
}

func (r *Refusal) Error() string { return r.Message }

// Refuse returns a Refusal.
func Refuse(status int, format string, args ...any) error {
	return &Refusal{Status: status, Message: fmt.Sprintf(format, args...)}
}

// BadRequest refuses an invalid request.
func BadRequest(format string, args ...any) error { return Refuse(statusBadRequest, format, args...) }

// Conflict refuses a request that the current state of the gr does not allow.
func Conflict(format string, args ...any) error { return Refuse(statusConflict, format, args...) }

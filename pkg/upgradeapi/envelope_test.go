package upgradeapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

func TestFailureHasAStatusThatFits(t *testing.T) {
	api := func(code int32) error {
		return fmt.Errorf("doing: %w", &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Message: "plain"}})
	}
	denied := func(code int32, message string) error {
		return fmt.Errorf("doing: %w", &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Message: message}})
	}
	const policy, webhook = "\"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: bounds", `admission webhook "w" denied the request: bounds`
	tests := []struct {
		err    error
		status int
		says   string
	}{
		{request.Conflict("busy"), http.StatusConflict, "busy"},
		{fmt.Errorf("doing: %w", request.BadRequest("bad")), http.StatusBadRequest, "bad"},
		{api(404), 404, "plain"}, {api(409), 409, "plain"}, {api(422), 422, "plain"}, {api(429), 429, "plain"},
		{api(403), 500, "plain"}, {api(401), 500, "plain"}, {api(500), 500, "plain"}, {api(0), 500, "plain"},
		{denied(403, policy), 422, policy + deniedHint}, {denied(422, policy), 422, "bounds"}, {denied(401, policy), 422, "bounds"},
		{denied(403, webhook), 422, webhook + deniedHint}, {denied(500, webhook), 422, "bounds"}, {denied(409, webhook), 422, "bounds"},
		{denied(403, `"a" is forbidden: User "system:serviceaccount:kube-system:gcu-operator" cannot patch resource "x"`), 500, "cannot patch"},
		{denied(500, `Internal error occurred: failed calling webhook "w": refused`), 500, "failed calling"},
		{fmt.Errorf("doing: %w", context.DeadlineExceeded), 504, "in time"},
		{&url.Error{Op: "Get", URL: "x", Err: errors.New("connection refused")}, 502, "cannot be reached"},
		{&url.Error{Op: "Get", URL: "x", Err: context.DeadlineExceeded}, 504, "in time"},
		{errors.New("odd"), 500, "odd"},
	}
	for _, tt := range tests {
		if status, message := failure(tt.err); status != tt.status || !strings.Contains(message, tt.says) {
			t.Errorf("failure(%v) = %d %q, want %d with %q", tt.err, status, message, tt.status, tt.says)
		}
	}
}

func TestAnAnswerIsPlain(t *testing.T) {
	const nasty = "a\x1b[2J\u009b\x7f\u202e\r\nb"
	content, err := inPrint(map[string]string{nasty: nasty})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []envelope{{Error: nasty}, {Content: []string{nasty}}, {Content: content}} {
		data, err := e.encode()
		if err != nil || strings.ContainsAny(string(data), "\x1b\u009b\x7f\u202e\r") || !strings.Contains(string(data), `a\u001b[2J\u009b\u007f\u202e\r\nb`) {
			t.Errorf("the answer is %q, %v", data, err)
		}
	}
}

package upgradeapi

import (
	"context"
	"net/http"
	"net/url"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// callTimeout bounds what is asked of the API server for one request.
	callTimeout = 20 * time.Second
	// answerTimeout is longer than any request but a foreground deletion may take,
	// which sets its own.
	answerTimeout = callTimeout + 10*time.Second
)

// call is one request, checked as far as every route needs it.
type call struct {
	// name of the gr, kind of its component; "" where the route has none.
	name, kind string
	// body is the whole body, content types do not matter (contract statement 70).
	body []byte
	// query of the URL, where it is not just dryRun.
	query url.Values
	// dryRun asks the API server to check and not to store.
	dryRun bool
	// user is who calls; empty without Access.
	user authenticationv1.UserInfo
	// request is the id of the request.
	request string
	// deadlines of the connection, for an answer that takes its time.
	deadlines *http.ResponseController
}

// endpoint is what one method of one path does.
type endpoint struct {
	operation string
	// verb on gcuresources the caller has to be allowed; "" asks for nothing.
	verb string
	// timeout of the handler; 0 means callTimeout.
	timeout time.Duration
	// reads tells that nothing is changed: no body, no dryRun, another rate.
	reads bool
	do    func(ctx context.Context, c call) (content any, err error)
}

func (c call) deleteOptions() []client.DeleteOption {
	if c.dryRun {
		return []client.DeleteOption{client.DryRunAll}
	}
	return nil
}

func (c call) patchOptions() []client.PatchOption {
	options := []client.PatchOption{client.FieldOwner(fieldOwner), client.FieldValidation("Strict")}
	if c.dryRun {
		options = append(options, client.DryRunAll)
	}
	return options
}

// fieldOwner is the field manager of what callers asked for.
const fieldOwner = "gcu-upgrade-manager"

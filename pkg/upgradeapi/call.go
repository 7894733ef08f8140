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
	// callTimeout bounds the calls to the API server for one request.
	callTimeout = 20 * time.Second
	// responseTimeout is longer than any request takes, except a foreground deletion,
	// which sets its own.
	responseTimeout = callTimeout + 10*time.Second
)

// call is an authorized request.
type call struct {
	// name of the gr, kind of its component, name of its plan; "" where the route has none.
	name, kind, plan string
	// body of the request, whatever its content type (contract statement 70).
	body []byte
	// query of the URL.
	query url.Values
	// dryRun makes writes dry runs.
	dryRun bool
	// flag is the value of the endpoint's own parameter.
	flag bool
	// user who sent it; empty without Access.
	user authenticationv1.UserInfo
	// request is the id of the request.
	request string
	// deadlines of the connection, for long-running requests.
	deadlines *http.ResponseController
}

// endpoint is one method of one path.
type endpoint struct {
	operation string
	// verb on gcuresources that the caller needs.
	verb string
	// timeout of the handler; 0 means callTimeout.
	timeout time.Duration
	// reads is set for read-only endpoints: they ignore dryRun, and most have a rate of their own.
	reads bool
	// costly is set for those that have the rate of changes: what they do concerns every node, or they send a dry run to the API server, which
	// whoever may read can ask for. Their handlers wait for their turn.
	costly bool
	// flag is a parameter of the query that a write has besides dryRun, "" for none.
	flag string
	do   func(ctx context.Context, c call) (content any, err error)
}

// hasRateOfReads reports whether a request counts as a read for the rate of its caller.
func (e endpoint) hasRateOfReads() bool { return e.reads && !e.costly }

func (c call) createOptions() []client.CreateOption {
	options := []client.CreateOption{client.FieldOwner(fieldOwner), client.FieldValidation("Strict")}
	if c.dryRun {
		options = append(options, client.DryRunAll)
	}
	return options
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

// fieldOwner is the field manager of writes on behalf of callers.
const fieldOwner = "gcu-upgrade-manager"

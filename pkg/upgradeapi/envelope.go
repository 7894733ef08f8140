package upgradeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/plaintext"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// Operations in an envelope. List, Get, Upgrade and Delete are those of gcu-upgrade-manager, whose
// clients compare them (contract 66); the others are ours.
const (
	OperationList     = "List"
	OperationGet      = "Get"
	OperationUpgrade  = "Upgrade"
	OperationDelete   = "Delete"
	OperationRollback = "Rollback"
	OperationPause    = "Pause"
	OperationResume   = "Resume"
	OperationPlan     = "Plan"
)

// Results in an envelope: Success if the request was carried out, else Failed (contract statement 66).
const (
	ResultSuccess = "Success"
	ResultFailed  = "Failed"
)

// envelope is the body of every response but the OpenAPI document and YAML that was asked for (contract statement 65):
// content is set on success if there is any, error on failure.
type envelope struct {
	Operation string `json:"operation"`
	Result    string `json:"result"`
	Content   any    `json:"content,omitempty"`
	Error     string `json:"error,omitempty"`
}

// yamlFile is content that is sent as it is, without an envelope: YAML, to be stored in a file.
type yamlFile string

const contentTypeYAML = "application/yaml"

// indent is four spaces, as in the contract.
const indent = "    "

// encode returns the envelope in the layout of the contract.
func (e envelope) encode() ([]byte, error) {
	content, isPrinted := e.Content.(printed)
	if !isPrinted {
		return encoded(e, "")
	}
	e.Content = nil
	before, err := encoded(e, "")
	if err != nil {
		return nil, err
	}
	before = bytes.TrimSuffix(before, []byte("\n}\n"))
	return slices.Concat(before, []byte(",\n"+indent+"\"content\": "), content, []byte("\n}\n")), nil
}

// printed is content that is already encoded, with the indentation of an envelope.
type printed []byte

// inPrint encodes content.
func inPrint(content any) (printed, error) {
	data, err := encoded(content, indent)
	return bytes.TrimSuffix(data, []byte("\n")), err
}

// encoded returns JSON with prefix before every line but the first, and without control
// characters, because people read it with curl.
func encoded(value any, prefix string) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent(prefix, indent)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("encoding the response: %w", err)
	}
	return []byte(plaintext.Text(out.String())), nil
}

// apiStatuses are the statuses of the API server that are passed on to the caller. Others are about the
// manager's own rights; a 403 too, unless the caller is impersonated.
var apiStatuses = map[int]bool{
	http.StatusBadRequest: true, http.StatusNotFound: true, http.StatusConflict: true, http.StatusRequestEntityTooLarge: true,
	http.StatusUnprocessableEntity: true, http.StatusTooManyRequests: true, http.StatusServiceUnavailable: true, http.StatusGatewayTimeout: true,
}

// deniedHint says what to do about a denial by admission.
const deniedHint = ": send what that webhook, policy or quota accepts, or have its administrator allow it"

// failure returns the HTTP status of an error (decision D8) and the message for the
// envelope: for an error of the API server its plain message (statement 67).
func failure(err error) (status int, message string) {
	if refusal, ok := errors.AsType[*request.Refusal](err); ok {
		return refusal.Status, refusal.Message
	}
	if api, ok := errors.AsType[*apierrors.StatusError](err); ok {
		if denial.ByAdmission(err) { // about the object, not about rights, whatever its code
			return http.StatusUnprocessableEntity, api.ErrStatus.Message + deniedHint
		}
		code := int(api.ErrStatus.Code)
		if !apiStatuses[code] {
			code = http.StatusInternalServerError
		}
		return code, api.ErrStatus.Message
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return http.StatusGatewayTimeout, "the API server did not answer in time: send the request again"
	}
	if errors.Is(err, context.Canceled) {
		return http.StatusServiceUnavailable, "the client disconnected"
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		return http.StatusBadGateway, "the API server cannot be reached: send the request again later"
	}
	return http.StatusInternalServerError, err.Error()
}

package admission

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/topsops/gcu-operator/pkg/connections"
)

// Path is where Versions is served (config/webhook/configuration.yaml).
const Path = "/admission/v1/versions"

const (
	// maxReview bounds what the API server sends: two objects, of which etcd takes 1.5 MiB each.
	maxReview = 4 << 20
	// maxReviews bounds what is in memory of it. One address has room for the largest.
	maxReviews = 4 * maxReview
	// receiveWithin is how long sending it may take: the timeoutSeconds of the configuration.
	receiveWithin = 5 * time.Second
)

// port serves Versions to anyone who can reach it.
type port struct {
	*Versions
	bodies connections.Bodies
	// receive is receiveWithin, or less for a test.
	receive time.Duration
}

// Handler returns what is served at Path. Where it answers with another status than 200, the API server allows the
// change (failurePolicy Ignore).
func (v *Versions) Handler() http.Handler {
	return &port{Versions: v, bodies: connections.Bodies{Largest: maxReview, OfOne: maxReview, All: maxReviews}, receive: receiveWithin}
}

// ServeHTTP implements http.Handler.
func (p *port) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Connection", "close") // what it may still send is not waited for
		http.Error(w, "only POST is answered", http.StatusMethodNotAllowed)
		return
	}
	deadlines := http.NewResponseController(w)
	_ = deadlines.SetReadDeadline(p.Now().Add(p.receive)) // a recorder of a test has none
	body, done, err := p.bodies.Read(w, r, connections.AddressOf(r))
	if err != nil {
		w.Header().Set("Connection", "close")
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	defer done()
	_ = deadlines.SetReadDeadline(time.Time{})
	var review struct {
		Request *change `json:"request"`
	}
	if err := json.Unmarshal(body, &review); err != nil || review.Request == nil {
		http.Error(w, "no AdmissionReview with a request", http.StatusBadRequest)
		return
	}
	response := p.Handle(r.Context(), review.Request).AdmissionResponse
	response.UID = review.Request.UID
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}, Response: &response}) // else the API server has gone
}

// statusOf returns the HTTP status of an error of connections.Bodies.
func statusOf(err error) int {
	switch {
	case errors.Is(err, connections.ErrTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, connections.ErrUnread):
		return http.StatusRequestTimeout
	}
	return http.StatusServiceUnavailable
}

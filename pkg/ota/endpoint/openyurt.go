package endpoint

import (
	"fmt"
	"net/http"
	"time"
)

// openYurt handles the paths of OpenYurt.
type openYurt struct {
	responder
	backend Backend
}

func (o openYurt) list(w http.ResponseWriter, r *http.Request) {
	pods, stale, err := o.backend.Pods(r.Context())
	if err != nil {
		o.refuse(w, r, err)
		return
	}
	if stale != nil {
		w.Header().Set("Warning", fmt.Sprintf("110 - %q", "Response is Stale: seen at "+stale.UTC().Format(time.RFC3339)))
	}
	o.writeJSON(w, r, http.StatusOK, pods)
}

func (o openYurt) upgrade(w http.ResponseWriter, r *http.Request) {
	namespace, pod := name(r, "ns"), name(r, "pod")
	if err := o.backend.UpgradePod(r.Context(), namespace, pod); err != nil {
		o.refuse(w, r, err)
		return
	}
	o.writeText(w, http.StatusOK, fmt.Sprintf("Start updating pod %s/%s", namespace, pod))
}

func (o openYurt) imagePull(w http.ResponseWriter, r *http.Request) {
	namespace, pod := name(r, "ns"), name(r, "pod")
	if err := o.backend.PullImages(r.Context(), namespace, pod); err != nil {
		o.refuse(w, r, err)
		return
	}
	o.writeText(w, http.StatusOK, fmt.Sprintf("Image pre-pull requested for pod %s/%s", namespace, pod))
}

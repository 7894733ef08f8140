package upgradeapi

import (
	"net/http"
	"strings"

	"github.com/gorilla/mux"
)

// optionalSlash ends the templates of all routes.
const optionalSlash = "{slash:/?}"

// routeOf returns the path of the route that a request fits, with the names of its variables; "" if it fits none.
func routeOf(r *http.Request) string {
	route := mux.CurrentRoute(r)
	if route == nil {
		return ""
	}
	template, err := route.GetPathTemplate()
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(template, optionalSlash)
}

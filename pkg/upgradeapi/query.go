package upgradeapi

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// dryRunIn reads the query of a write request. It rejects unknown parameters: a misspelt
// dryRun must not become a write.
func dryRunIn(query url.Values) (bool, error) {
	return onlyBool(query, "dryRun", "the only parameter is dryRun=true")
}

// approvedIn reads the query of a POST for a plan, or the rest of that of a GET.
func approvedIn(query url.Values) (bool, error) {
	return onlyBool(query, "approved", "the parameters are file, nodes, components, all and approved, of a POST only approved")
}

// onlyBool reads the only parameter that a query may have; known lists it for the error.
func onlyBool(query url.Values, name, known string) (bool, error) {
	for key, values := range query {
		if key != name || len(values) != 1 {
			return false, request.BadRequest("query %.100q is not valid: %s", query.Encode(), known)
		}
	}
	if !query.Has(name) {
		return false, nil
	}
	return boolean(name, query.Get(name))
}

func boolean(name, text string) (bool, error) {
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, request.BadRequest("%s %.100q is neither true nor false", name, text)
	}
	return value, nil
}

// planIn reads the query of a GET for a plan: the fields of the body of a PUT, or none for
// what is left to do.
func planIn(query url.Values) (body request.Upgrade, approved bool, err error) {
	body.Mode = request.ModeInPlace
	rest := url.Values{}
	for key, values := range query {
		switch {
		case key == "file" && len(values) == 1 && values[0] != "":
			body.File = values[0]
		case key == "nodes":
			body.Nodes = listed(values)
		case key == "components":
			body.Components = listed(values)
		case key == "all" && len(values) == 1:
			if body.All, err = boolean(key, values[0]); err != nil {
				return body, false, err
			}
		default:
			rest[key] = values
		}
	}
	if approved, err = approvedIn(rest); err != nil {
		return body, false, err
	}
	return body, approved, body.Check()
}

// listed returns the names in repeated or comma-separated values.
func listed(values []string) []string {
	names := []string{}
	for _, v := range values {
		names = append(names, strings.Split(v, ",")...)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

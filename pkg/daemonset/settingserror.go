package daemonset

import "fmt"

// SettingsError states which annotation or field is invalid and the allowed values. Reason
// is one CamelCase word for a condition.
type SettingsError struct {
	Reason  string
	Message string
}

func (e *SettingsError) Error() string { return e.Message }

// Reasons of a SettingsError.
const (
	ReasonInvalidStrategy       = "InvalidUpdateStrategy"
	ReasonInvalidMaxUnavailable = "InvalidMaxUnavailable"
	ReasonInvalidPaused         = "InvalidPaused"
	ReasonPolicyNotFound        = "UpgradePolicyNotFound"
	ReasonInvalidPolicy         = "InvalidUpgradePolicy"
	ReasonNotOnDelete           = "UpdateTypeNotOnDelete"
	ReasonInvalidUpgradeOnly    = "InvalidUpgradeOnly"
	ReasonPlanNotFound          = "UpgradePlanNotFound"
	ReasonInvalidPlan           = "InvalidUpgradePlan"
	ReasonPlanOutdated          = "UpgradePlanOutdated"
	ReasonSettingsDisagree      = "SettingsDisagree"
)

func settingsError(reason, format string, args ...any) error {
	return &SettingsError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

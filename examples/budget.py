"""How many questions are enough? The agreement of weights and model for budgets of different size."""

from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import aimwise

data = load_wine(as_frame=True)
X_train, X_test, y_train, _ = train_test_split(data.data, data.target_names[data.target], random_state=0)
model = RandomForestClassifier(random_state=0).fit(X_train, y_train)

for most in (1_000, 4_000, 16_000):
    explainer = aimwise.AIM(epochs=8).fit(model, X_train, max_queries=most)
    check = explainer.explain(X_test, check=64).check
    print(f"{most:>6} questions: agreement {check.agreement.mean():.2f} (without weights {check.without.mean():.2f})")

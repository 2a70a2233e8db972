"""Find a leak: a column that should not be there gives the answer away, and the explanation shows it."""

from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import aimwise

data = load_wine(as_frame=True)
table = data.data.assign(shelf=data.target * 10)  # someone sorted the bottles before they were measured
X_train, X_test, y_train, y_test = train_test_split(table, data.target_names[data.target], random_state=0)
model = RandomForestClassifier(random_state=0, max_features=None).fit(X_train, y_train)
print(f"accuracy {model.score(X_test, y_test):.2f}: too good?")

explanation = aimwise.AIM(epochs=6).fit(model, X_train).explain(X_test)
first = [explanation.names[i] for i in explanation.order()[:, 0]]
print(f"the column on top: {max(set(first), key=first.count)}, in {first.count('shelf')} of {len(first)} rows")

"""The paper's human evaluation (section 4.3 and App. F): can people tell the class of an input from its key features alone?

`survey` is what is asked, `build` makes one from explanations, `store` keeps answers, `service` is the page that participants
see, and `results` says what came out.
"""
